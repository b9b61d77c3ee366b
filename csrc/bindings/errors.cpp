// Translates KernelError, UnsupportedError and CaptureError into the Python classes, which stay defined in
// Python alone.
#include "bindings/errors.h"

#include <pybind11/pybind11.h>

#include "captures/read/reader.h"
#include "runtime/check.h"

namespace py = pybind11;

namespace profkit {
namespace {

void raise(const char* type, const char* message) {
  // Looked up when needed: importing profkit._core must not depend on the order of imports in profkit.
  const py::object cls = py::module_::import("profkit.errors").attr(type);
  PyErr_SetString(cls.ptr(), message);
}

}  // namespace

void register_errors() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const KernelError& error) {
      raise("KernelError", error.what());
    } catch (const UnsupportedError& error) {
      raise("UnsupportedError", error.what());
    } catch (const captures::CaptureError& error) {
      raise("CaptureError", error.message.c_str());
    }
  });
}

}  // namespace profkit
