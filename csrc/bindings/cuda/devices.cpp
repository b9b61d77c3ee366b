// Devices, their memory and streams.
#include <pybind11/stl.h>

#include <string>

#include "bindings/module.h"
#include "runtime/check.h"
#include "runtime/cuda_device.h"

namespace py = pybind11;

namespace profkit {
namespace {

py::dict build_info() {
  py::dict result;
  result["architectures"] = PROFKIT_CUDA_ARCHITECTURES_TEXT;  // "75-real 80-real ... 120"
  result["compiler"] = PROFKIT_CUDA_COMPILER_TEXT;
  result["runtime_version"] = cuda_versions().runtime;
  return result;
}

int driver_version() { return cuda_versions().driver; }

py::list devices() {
  py::list result;
  for (const DeviceFacts& facts : cuda_devices()) {
    py::dict entry;
    entry["index"] = facts.index;
    entry["name"] = facts.name;
    entry["pci_bus_id"] = facts.pci_bus_id;
    entry["capability"] = facts.launch.capability;
    entry["multiprocessors"] = facts.launch.multiprocessors;
    entry["shared_bytes_per_block"] = facts.launch.shared_bytes_per_block;
    entry["l2_bytes"] = facts.launch.l2_bytes;
    entry["memory_bytes"] = facts.memory_bytes;
    entry["clock_khz"] = facts.clock_khz;
    entry["memory_clock_khz"] = facts.memory_clock_khz;
    entry["memory_bus_bits"] = facts.memory_bus_bits;
    entry["has_ecc"] = facts.has_ecc;
    result.append(entry);
  }
  return result;
}

// A C-contiguous buffer of exactly as many bytes as the memory has.
py::buffer_info whole(const py::buffer& buffer, const DeviceMemory& memory, bool is_written) {
  py::buffer_info info = buffer.request(is_written);
  const auto bytes = static_cast<size_t>(info.size * info.itemsize);
  if (bytes != memory.bytes()) {
    throw KernelError("the array has " + std::to_string(bytes) + " bytes, the device memory " +
                      std::to_string(memory.bytes()));
  }
  py::ssize_t step = info.itemsize;
  for (py::ssize_t i = info.ndim; i-- > 0; step *= info.shape[static_cast<size_t>(i)]) {
    if (info.shape[static_cast<size_t>(i)] > 1 && info.strides[static_cast<size_t>(i)] != step) {
      throw KernelError("the array is not C-contiguous");
    }
  }
  return info;
}

void upload(DeviceMemory& memory, const py::buffer& source) {
  const py::buffer_info info = whole(source, memory, false);
  const py::gil_scoped_release release;
  memory.upload(info.ptr, memory.bytes());
}

void download(const DeviceMemory& memory, const py::buffer& target) {
  const py::buffer_info info = whole(target, memory, true);
  const py::gil_scoped_release release;
  memory.download(info.ptr, memory.bytes());
}

py::tuple memory_info() {
  const DeviceMemoryInfo info = device_memory_info();
  return py::make_tuple(info.free_bytes, info.total_bytes);
}

}  // namespace

void register_cuda_devices(py::module_& module) {
  module.def("build_info", &build_info);
  module.def("driver_version", &driver_version);
  module.def("error_text", &cuda_error_text, py::arg("code"));
  module.def("devices", &devices);
  module.def("use_device", &use_cuda_device, py::arg("index"));
  module.def("memory_info", &memory_info);
  module.def(
      "synchronize",
      [](uintptr_t stream) {
        const py::gil_scoped_release release;
        synchronize_stream(reinterpret_cast<void*>(stream));
      },
      py::arg("stream"));
  py::class_<DeviceMemory>(module, "DeviceMemory")
      .def(py::init<size_t>(), py::arg("bytes"))
      .def_property_readonly(
          "pointer", [](const DeviceMemory& memory) { return reinterpret_cast<uintptr_t>(memory.data()); })
      .def_property_readonly("nbytes", &DeviceMemory::bytes)
      .def("upload", &upload, py::arg("source"))
      .def("download", &download, py::arg("target"))
      .def("fill", &DeviceMemory::fill, py::arg("byte"));
  py::class_<Stream>(module, "Stream")
      .def(py::init<>())
      .def_property_readonly(
          "handle", [](const Stream& stream) { return reinterpret_cast<uintptr_t>(stream.handle()); });
}

}  // namespace profkit
