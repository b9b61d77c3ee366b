#include "bindings/cuda/errors.h"

#include <pybind11/pybind11.h>

#include "runtime/check.h"
#include "runtime/cuda_device.h"

namespace py = pybind11;

namespace profkit {
namespace {

void raise(const char* type, const char* message) {
  const py::object cls = py::module_::import("profkit.errors").attr(type);
  PyErr_SetString(cls.ptr(), message);
}

void raise(const CudaError& error) {
  switch (error.trouble) {
    case CudaErrorKind::unavailable:
      return raise("UnavailableError", error.what());
    case CudaErrorKind::out_of_memory:
      return PyErr_SetString(PyExc_MemoryError, error.what());
    case CudaErrorKind::failed:
      return raise("KernelError", error.what());
  }
}

}  // namespace

void register_cuda_errors() {
  // Local: profkit._core has its own translator for errors of the same names.
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const CudaError& error) {
      raise(error);
    } catch (const KernelError& error) {
      raise("KernelError", error.what());
    } catch (const UnsupportedError& error) {
      raise("UnsupportedError", error.what());
    }
  });
}

}  // namespace profkit
