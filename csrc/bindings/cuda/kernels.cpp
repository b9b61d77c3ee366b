// Checks a call on device memory once, then enqueues it any number of times.
#include <pybind11/stl.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/kernels/arguments.h"
#include "bindings/module.h"
#include "kernels/cuda/registry.h"
#include "kernels/operators.h"
#include "runtime/check.h"
#include "runtime/cuda_device.h"

namespace py = pybind11;

namespace profkit {

#define PROFKIT_DECLARE(op) const std::vector<CudaKernel<profkit_##op##_params>>& op##_cuda_kernels();
PROFKIT_CUDA_OPERATORS(PROFKIT_DECLARE)
#undef PROFKIT_DECLARE

namespace {

#define PROFKIT_NAME(op) #op,
constexpr const char* kCudaOperators[] = {PROFKIT_CUDA_OPERATORS(PROFKIT_NAME)};
#undef PROFKIT_NAME

template <class Action>
auto with_rows(const std::string& key, Action&& action) {
  const std::string op = key.substr(0, key.find('/'));
#define PROFKIT_TRY(name) \
  if (op == #name) return action(name##_cuda_kernels());
  PROFKIT_CUDA_OPERATORS(PROFKIT_TRY)
#undef PROFKIT_TRY
  throw KernelError("unknown operator " + op + "; known: " + joined(kCudaOperators));
}

template <class Params, class Action>
auto with_params(const CudaKernel<Params>& row, const py::dict& values, Action&& action) {
  const Params params = read_params<Params>(values);
  arrays_of(params);  // throws when they are inconsistent
  return action(row, params);
}

// Calls action(row, params) with the row of this key and its checked parameters.
template <class Action>
auto with_row(const std::string& key, const py::dict& values, Action&& action) {
  return with_rows(key, [&](const auto& rows) {
    const auto& row = find_row(rows, key, "CUDA kernel");
    return with_params(row, values, action);
  });
}

// The device as the caller describes it ("capability": 90, ...), or the current one.
CudaDevice device_of(const py::object& given) {
  if (given.is_none()) return current_cuda_device();
  CudaDevice device;
  const py::dict values = given;
  for (const auto& [name, value] : values) {
    const auto text = name.cast<std::string>();
    if (text == "capability") {
      device.capability = value.cast<int>();
    } else if (text == "multiprocessors") {
      device.multiprocessors = value.cast<int>();
    } else if (text == "shared_bytes_per_block") {
      device.shared_bytes_per_block = value.cast<size_t>();
    } else if (text == "l2_bytes") {
      device.l2_bytes = value.cast<size_t>();
    }
  }
  return device;
}

// Enqueues; waits for nothing. Holds what it works on.
class CudaBoundCall {
 public:
  CudaBoundCall(std::function<void()> enqueue, py::list kept)
      : enqueue_(std::move(enqueue)), kept_(std::move(kept)) {}
  void operator()() const {
    const py::gil_scoped_release release;
    enqueue_();
  }

 private:
  std::function<void()> enqueue_;
  py::list kept_;
};

void* checked_memory(const DeviceMemory& memory, size_t bytes, const std::string& role) {
  if (memory.bytes() < bytes) {
    throw KernelError(role + ": the device memory has " + std::to_string(memory.bytes()) + " bytes, " +
                      std::to_string(bytes) + " are needed");
  }
  return memory.data();
}

size_t bytes_of(const Shape& shape, int64_t dtype) {
  size_t bytes = dtype == PROFKIT_FLOAT64 ? 8 : dtype == PROFKIT_FLOAT32 ? 4 : 2;
  for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

CudaBoundCall bind_call(const std::string& key, const py::dict& values,
                        const std::vector<DeviceMemory*>& inputs, DeviceMemory& output,
                        DeviceMemory* workspace, uintptr_t stream, int configuration, const py::list& kept) {
  CudaCall call;
  call.device = current_cuda_device();
  call.stream = reinterpret_cast<void*>(stream);
  call.configuration = configuration;
  return with_row(key, values, [&](const auto& row, const auto& params) {
    const std::string reason = row.supports(params, call.device);
    if (!reason.empty()) throw UnsupportedError(key + ": " + reason);
    call = row.resolved(params, call);
    const Arrays expected = arrays_of(params);
    if (inputs.size() != expected.inputs.size()) {
      throw KernelError("expected " + std::to_string(expected.inputs.size()) + " inputs, got " +
                        std::to_string(inputs.size()));
    }
    Buffers buffers;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const NamedShape& input = expected.inputs[i];
      buffers.inputs[i] =
          checked_memory(*inputs[i], bytes_of(input.shape, expected.dtype), "input " + input.name);
    }
    buffers.output = checked_memory(output, bytes_of(expected.output, expected.dtype), "output");
    const size_t needed = row.workspace_bytes(params, call);
    if (needed > 0 && workspace == nullptr) throw KernelError(key + ": a workspace is needed");
    if (needed > 0) buffers.workspace = checked_memory(*workspace, needed, "workspace");
    return CudaBoundCall([launch = row.launch, params, buffers, call] { launch(params, buffers, call); },
                         kept);
  });
}

std::vector<std::string> keys(const std::string& op) {
  return with_rows(op, [](const auto& rows) { return keys_of(rows); });
}

}  // namespace

void register_cuda_kernels(py::module_& module) {
  for (const char* op : kCudaOperators) keys(op);
  py::class_<CudaBoundCall>(module, "CudaBoundCall").def("__call__", &CudaBoundCall::operator());
  module.def("kernels", &keys, py::arg("op"));
  // `answer(row, params, device)` for a key, its parameters and a device that need not be there.
  const auto define = [&](const char* name, auto answer) {
    module.def(
        name,
        [answer](const std::string& key, const py::dict& values, const py::object& device) {
          const CudaDevice facts = device_of(device);
          return with_row(key, values,
                          [&](const auto& row, const auto& params) { return answer(row, params, facts); });
        },
        py::arg("key"), py::arg("params"), py::arg("device") = py::none());
  };
  define("supports", [](const auto& row, const auto& params, const CudaDevice& device) {
    return row.supports(params, device);
  });
  define("configurations", [](const auto& row, const auto& params, const CudaDevice& device) {
    return row.configuration_names(params, device);
  });
  define("policy", [](const auto& row, const auto& params, const CudaDevice& device) {
    return row.policy == nullptr ? kByPolicy : row.policy(params, device);
  });
  module.def(
      "workspace_bytes",
      [](const std::string& key, const py::dict& values, int configuration, const py::object& device) {
        CudaCall call;
        call.device = device_of(device);
        call.configuration = configuration;
        return with_row(key, values, [&](const auto& row, const auto& params) {
          return row.workspace_bytes(params, row.resolved(params, call));
        });
      },
      py::arg("key"), py::arg("params"), py::arg("configuration") = kByPolicy,
      py::arg("device") = py::none());
  module.def(
      "bind",
      [](const std::string& key, const py::dict& values, const py::list& inputs, const py::object& output,
         const py::object& workspace, uintptr_t stream, int configuration) {
        py::list kept = inputs.attr("copy")();
        kept.append(output);
        kept.append(workspace);
        return bind_call(key, values, inputs.cast<std::vector<DeviceMemory*>>(), output.cast<DeviceMemory&>(),
                         workspace.is_none() ? nullptr : workspace.cast<DeviceMemory*>(), stream,
                         configuration, kept);
      },
      py::arg("key"), py::arg("params"), py::arg("inputs"), py::arg("output"), py::arg("workspace"),
      py::arg("stream"), py::arg("configuration") = kByPolicy);
}

}  // namespace profkit
