// Checks a call once, then runs it any number of times: Python arguments in, the output array filled.
#include <pybind11/stl.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/kernels/arguments.h"
#include "bindings/kernels/array.h"
#include "bindings/module.h"
#include "bindings/tracer/library.h"
#include "kernels/cpu/tuning.h"
#include "kernels/cuda/structs.h"
#include "kernels/operators.h"
#include "runtime/aligned_memory.h"
#include "runtime/check.h"

namespace py = pybind11;

namespace profkit {
namespace {

std::string operator_of(const std::string& key) { return key.substr(0, key.find('/')); }

template <class Params>
const Kernel<Params>& find_kernel(const std::vector<Kernel<Params>>& rows, const std::string& key) {
  return find_row(rows, key, "kernel");
}

template <class Params>
Params params_of(const std::vector<Kernel<Params>>&);  // for its type

template <class Params>
Params checked_params(const std::vector<Kernel<Params>>&, const py::dict& values) {
  const Params params = read_params<Params>(values);
  arrays_of(params);
  return params;
}

// The arguments of one call, as Python passed them.
struct CallArguments {
  const py::sequence& inputs;
  const py::object& output;
  const py::object& workspace;
  int threads;
  const Tuning& tuning;
  bool packs_ahead;
};

// Held while a call runs: two at once would share its workspace.
class CallLock {
 public:
  explicit CallLock(std::atomic_flag& is_running) : is_running_(is_running) {
    if (is_running_.test_and_set(std::memory_order_acquire)) {
      throw KernelError("this bound call is already running; bind one for each thread");
    }
  }
  ~CallLock() { is_running_.clear(std::memory_order_release); }
  CallLock(const CallLock&) = delete;
  CallLock& operator=(const CallLock&) = delete;

 private:
  std::atomic_flag& is_running_;
};

// A checked call: holds the arrays, so that running it again costs no check and no allocation.
class BoundCall {
 public:
  using Launch = std::function<void(const Buffers&)>;
  using Pack = std::function<void(const void* weights, void* packed)>;

  // `title` names the range that each run opens for the tracer.
  BoundCall(std::string title, const Arrays& expected, const CallArguments& request, size_t workspace_bytes,
            Launch launch, size_t packed_bytes = 0, const Pack& pack = nullptr)
      : title_(std::move(title)),
        launch_(std::move(launch)),
        dtype_(expected.dtype),
        output_shape_(expected.output) {
    take_inputs(expected, request.inputs);
    if (!request.output.is_none()) {
      output_.emplace(checked_output(request.output));
      buffers_.output = output_->data();
    }
    take_workspace(request.workspace, workspace_bytes);
    if (packed_bytes == 0) return;
    packed_ = AlignedMemory(packed_bytes);
    const py::gil_scoped_release release;
    pack(buffers_.inputs[1], packed_.data());
    buffers_.packed = packed_.data();
  }

  void run() const {
    if (!output_) throw KernelError("output: is a NoneType; it must be bound, or given to the call");
    const CallLock lock(*is_running_);
    launch(buffers_);
  }

  // Fills another output; only that is checked again.
  void run_into(const py::object& object) const {
    const Array output = checked_output(object);
    const CallLock lock(*is_running_);
    Buffers buffers = buffers_;
    buffers.output = output.data();
    launch(buffers);
  }

 private:
  // The range is inside the release: waiting for the GIL does not count for the kernel.
  void launch(const Buffers& buffers) const {
    const py::gil_scoped_release release;
    const NativeRange range(range_name_, title_);
    launch_(buffers);
  }

  Array checked_output(const py::object& object) const {
    Array output(object, "output");
    output.require(dtype_, output_shape_);
    output.require_writable();
    for (const Array& input : inputs_) output.require_apart_from(input);
    if (workspace_) output.require_apart_from(*workspace_);
    return output;
  }

  void take_inputs(const Arrays& expected, const py::sequence& given) {
    if (given.size() != expected.inputs.size()) {
      std::vector<std::string> names;
      for (const NamedShape& input : expected.inputs) names.push_back(input.name);
      throw KernelError("expected " + std::to_string(expected.inputs.size()) + " inputs (" + joined(names) +
                        "), got " + std::to_string(given.size()));
    }
    inputs_.reserve(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      inputs_.emplace_back(py::object(given[i]), "input " + expected.inputs[i].name);
      inputs_.back().require(expected.inputs[i].is_indices ? kIndices : expected.dtype,
                             expected.inputs[i].shape);
      buffers_.inputs[i] = inputs_.back().data();
    }
  }

  void take_workspace(const py::object& given, size_t bytes) {
    if (given.is_none()) {
      own_workspace_ = AlignedMemory(bytes);
      buffers_.workspace = own_workspace_.data();
      return;
    }
    workspace_.emplace(given, "workspace");
    workspace_->require_room(bytes);
    for (const Array& input : inputs_) workspace_->require_apart_from(input);
    if (output_) workspace_->require_apart_from(*output_);
    buffers_.workspace = workspace_->data();
  }

  std::string title_;
  mutable RangeName range_name_;  // written by the run that holds the lock
  Launch launch_;
  int64_t dtype_;
  Shape output_shape_;
  std::vector<Array> inputs_;
  std::optional<Array> output_, workspace_;
  AlignedMemory own_workspace_, packed_;
  Buffers buffers_;
  // By pointer: a flag cannot be moved, a call is.
  std::unique_ptr<std::atomic_flag> is_running_ = std::make_unique<std::atomic_flag>();
};

template <class Params>
CpuTunables tunables_of(const Kernel<Params>& kernel, const Params& params, int threads) {
  return kernel.tunables ? kernel.tunables(params, threads) : CpuTunables{};
}

template <class Params>
CpuBlocks blocks_of(const Kernel<Params>& kernel, const Params& params, int threads, const Tuning& tuning) {
  return tuning.empty() ? CpuBlocks{}
                        : checked_blocks(kernel.key, tunables_of(kernel, params, threads), tuning);
}

template <class Params>
size_t packed_size(const Kernel<Params>& kernel, const Params& params, int threads, const Tuning& tuning) {
  if (!kernel.packed_bytes) return 0;
  return kernel.packed_bytes(params, threads, blocks_of(kernel, params, threads, tuning));
}

template <class Params>
BoundCall bind_kernel(const Kernel<Params>& kernel, const py::dict& values, const CallArguments& request) {
  const Params params = read_params<Params>(values);
  const Arrays expected = arrays_of(params);
  const std::string reason = kernel.supports(params);
  if (!reason.empty()) throw UnsupportedError(kernel.key + ": " + reason);
  const int threads = request.threads;
  const CpuBlocks blocks = blocks_of(kernel, params, threads, request.tuning);
  const size_t packed = request.packs_ahead ? packed_size(kernel, params, threads, request.tuning) : 0;
  if (request.packs_ahead && packed == 0) {
    throw UnsupportedError(kernel.key + ": packs nothing ahead for these parameters");
  }
  return BoundCall(
      kernel.key, expected, request, kernel.workspace_bytes(params, threads, blocks),
      [launch = kernel.launch, params, threads, blocks](const Buffers& buffers) {
        launch(params, buffers, threads, blocks);
      },
      packed,
      [pack = kernel.pack, params, threads, blocks](const void* weights, void* to) {
        pack(params, weights, to, threads, blocks);
      });
}

BoundCall bind_call(const std::string& key, const py::dict& params, const py::sequence& inputs,
                    const py::object& output, const py::object& workspace, int64_t threads,
                    const Tuning& tuning, bool packs_ahead) {
  const CallArguments request{inputs, output, workspace, checked_threads(threads), tuning, packs_ahead};
  return with_operator(operator_of(key), [&](const auto& rows) {
    return bind_kernel(find_kernel(rows, key), params, request);
  });
}

// The documented signature of users' kernels in C or C++ (docs on candidates); 0 means success.
template <class Params>
using Candidate = int (*)(const Params* params, const void* const* inputs, void* output, int threads);

template <class Params>
void call_candidate(Candidate<Params> candidate, const Params& params, const Buffers& buffers, int threads) {
  int code = 0;
  try {
    code = candidate(&params, buffers.inputs, buffers.output, threads);
  } catch (const std::bad_alloc&) {
    throw;  // becomes MemoryError, as for kernels
  } catch (const std::exception& error) {
    throw KernelError(std::string("the candidate threw: ") + error.what());
  } catch (...) {
    throw KernelError("the candidate threw an exception that is not a std::exception");
  }
  if (code != 0) throw KernelError("the candidate returned error code " + std::to_string(code));
}

template <class Params>
BoundCall bind_typed_candidate(const std::vector<Kernel<Params>>&, const std::string& op, uintptr_t address,
                               const py::dict& values, const CallArguments& request) {
  const Params params = read_params<Params>(values);
  const auto candidate = reinterpret_cast<Candidate<Params>>(address);
  const int threads = request.threads;
  return BoundCall(op + "/candidate", arrays_of(params), request, 0,
                   [candidate, params, threads](const Buffers& buffers) {
                     call_candidate(candidate, params, buffers, threads);
                   });
}

BoundCall bind_candidate(uintptr_t address, const std::string& op, const py::dict& params,
                         const py::sequence& inputs, const py::object& output, int64_t threads) {
  if (address == 0) throw KernelError("the candidate's address is 0");
  const py::none no_workspace;
  const Tuning no_tuning;
  const CallArguments request{inputs, output, no_workspace, checked_threads(threads), no_tuning, false};
  return with_operator(
      op, [&](const auto& rows) { return bind_typed_candidate(rows, op, address, params, request); });
}

std::vector<std::string> keys(const std::string& op) {
  return with_operator(op, [](const auto& rows) { return keys_of(rows); });
}

// Name and type of every field of the operator's struct, in order.
py::list fields(const std::string& op) {
  return with_operator(op, [](const auto& rows) {
    using Params = decltype(params_of(rows));
    py::list result;
    for (const ParamsField& field : params_fields<Params>()) {
      result.append(py::make_tuple(field.name, field.is_real ? "double" : "int64_t"));
    }
    return result;
  });
}

std::string reason_against(const std::string& key, const py::dict& params) {
  return with_operator(operator_of(key), [&](const auto& rows) {
    return find_kernel(rows, key).supports(checked_params(rows, params));
  });
}

size_t workspace_bytes(const std::string& key, const py::dict& params, int64_t threads,
                       const Tuning& tuning) {
  return with_operator(operator_of(key), [&](const auto& rows) {
    const auto checked = checked_params(rows, params);
    const auto& kernel = find_kernel(rows, key);
    const int parts = checked_threads(threads);
    return kernel.workspace_bytes(checked, parts, blocks_of(kernel, checked, parts, tuning));
  });
}

size_t packed_bytes(const std::string& key, const py::dict& params, int64_t threads, const Tuning& tuning) {
  return with_operator(operator_of(key), [&](const auto& rows) {
    const auto checked = checked_params(rows, params);
    return packed_size(find_kernel(rows, key), checked, checked_threads(threads), tuning);
  });
}

std::vector<std::string> packing_keys(const std::string& op) {
  return with_operator(op, [](const auto& rows) {
    std::vector<std::string> result;
    for (const auto& row : rows) {
      if (row.packed_bytes) result.push_back(row.key);
    }
    return result;
  });
}

py::list tunables(const std::string& key, const py::dict& params, int64_t threads) {
  const CpuTunables known = with_operator(operator_of(key), [&](const auto& rows) {
    return tunables_of(find_kernel(rows, key), checked_params(rows, params), checked_threads(threads));
  });
  py::list described;
  for (int i = 0; i < known.count; ++i) {
    const CpuTunable& tunable = known.list[i];
    described.append(py::dict(py::arg("name") = tunable.name, py::arg("default") = tunable.chosen,
                              py::arg("candidates") = candidate_values(tunable)));
  }
  return described;
}

}  // namespace

void register_kernels(py::module_& module) {
  module.def("cuda_structs", [] {
    py::dict structs;
    for (const StructLayout& layout : cuda_structs()) {
      py::list fields;
      for (const StructField& field : layout.fields) {
        fields.append(py::make_tuple(field.name, field.kind, field.offset));
      }
      structs[layout.name.c_str()] = py::make_tuple(layout.size, fields, py::bytes(layout.defaults));
    }
    return structs;
  });
  // A duplicate key must fail at import, not at the first use of its operator.
  for (const char* op : kOperators) keys(op);

  py::class_<BoundCall>(module, "BoundCall")
      .def("__call__", &BoundCall::run)
      .def("__call__", &BoundCall::run_into, py::arg("output"));
  module.def("kernels", &keys, py::arg("op"));
  module.def("params_fields", &fields, py::arg("op"));
  module.def("supports", &reason_against, py::arg("key"), py::arg("params"));
  module.def("tunables", &tunables, py::arg("key"), py::arg("params"), py::arg("threads"));
  module.def("workspace_bytes", &workspace_bytes, py::arg("key"), py::arg("params"), py::arg("threads"),
             py::arg("tuning") = Tuning{});
  module.def("packed_bytes", &packed_bytes, py::arg("key"), py::arg("params"), py::arg("threads"),
             py::arg("tuning") = Tuning{});
  module.def("packing_kernels", &packing_keys, py::arg("op"));
  module.def("bind", &bind_call, py::arg("key"), py::arg("params"), py::arg("inputs"), py::arg("output"),
             py::arg("workspace"), py::arg("threads"), py::arg("tuning") = Tuning{},
             py::arg("packs_ahead") = false);
  module.def(
      "run",
      [](const std::string& key, const py::dict& params, const py::sequence& inputs, const py::object& output,
         const py::object& workspace,
         int64_t threads) { bind_call(key, params, inputs, output, workspace, threads, {}, false).run(); },
      py::arg("key"), py::arg("params"), py::arg("inputs"), py::arg("output"), py::arg("workspace"),
      py::arg("threads"));
  module.def("bind_candidate", &bind_candidate, py::arg("address"), py::arg("op"), py::arg("params"),
             py::arg("inputs"), py::arg("output"), py::arg("threads"));
  module.def(
      "run_candidate",
      [](uintptr_t address, const std::string& op, const py::dict& params, const py::sequence& inputs,
         const py::object& output,
         int64_t threads) { bind_candidate(address, op, params, inputs, output, threads).run(); },
      py::arg("address"), py::arg("op"), py::arg("params"), py::arg("inputs"), py::arg("output"),
      py::arg("threads"));
}

}  // namespace profkit
