// profkit._cuda: a table of contents. What each function takes and gives is written in profkit/_cuda.pyi. A
// separate module, so that profkit._core never needs CUDA; it loads without a driver, too (the CUDA runtime
// is linked statically).
#include "bindings/module.h"

PYBIND11_MODULE(_cuda, module) {
  profkit::register_cuda_errors();
  profkit::register_cuda_devices(module);
  profkit::register_cuda_kernels(module);
  profkit::register_cuda_timer(module);
}
