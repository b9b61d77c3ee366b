// The timer of device work.
#include "bindings/module.h"
#include "runtime/check.h"
#include "runtime/cuda_timer.h"

namespace py = pybind11;

namespace profkit {
namespace {

constexpr double kLongestHold_s = 60;

std::unique_ptr<DeviceTimer> make_timer(uintptr_t stream, double give_up_after_s) {
  if (!(give_up_after_s > 0 && give_up_after_s <= kLongestHold_s)) {
    throw KernelError("give_up_after_s must be above 0 and at most " + std::to_string(kLongestHold_s) +
                      ", got " + std::to_string(give_up_after_s));
  }
  return std::make_unique<DeviceTimer>(reinterpret_cast<void*>(stream), give_up_after_s);
}

// Waits without the interpreter's lock: a framework's own threads may need it to get the work done.
py::tuple finish(DeviceTimer& timer) {
  DeviceTime time{};
  {
    const py::gil_scoped_release release;
    time = timer.finish();
  }
  return py::make_tuple(time.ns, time.gave_up);
}

}  // namespace

void register_cuda_timer(py::module_& module) {
  py::class_<DeviceTimer>(module, "DeviceTimer")
      .def(py::init(&make_timer), py::arg("stream"), py::arg("give_up_after_s"))
      .def("hold", &DeviceTimer::hold)
      .def("begin", &DeviceTimer::begin)
      .def("end", &DeviceTimer::end)
      .def("release", &DeviceTimer::release)
      .def("finish", &finish)
      .def("flush", &DeviceTimer::flush, py::arg("bytes"));
}

}  // namespace profkit
