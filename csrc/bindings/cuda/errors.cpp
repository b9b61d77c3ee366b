// Translates the errors of kernels and of the CUDA runtime for profkit._cuda.
#include "bindings/errors.h"

#include "bindings/module.h"
#include "runtime/cuda_device.h"

namespace profkit {
namespace {

void set_cuda_error(const CudaError& error) {
  switch (error.kind) {
    case CudaErrorKind::unavailable:
      return set_error("UnavailableError", error.what());
    case CudaErrorKind::out_of_memory:
      return PyErr_SetString(PyExc_MemoryError, error.what());
    case CudaErrorKind::failed:
      return set_error("KernelError", error.what());
  }
}

}  // namespace

void register_cuda_errors() {
  // Local: profkit._core has its own translator for errors of the same names.
  pybind11::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      translate_kernel_error(pointer);
    } catch (const CudaError& error) {
      set_cuda_error(error);
    }
  });
}

}  // namespace profkit
