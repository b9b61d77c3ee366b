// C++ errors -> the classes of profkit.errors, which are defined in Python alone.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>

#include "runtime/check.h"

namespace profkit {

// Sets the Python error profkit.errors.<type>. The class is looked up when needed: importing a module must
// not depend on the order of imports in profkit.
inline void set_error(const char* type, const char* message) {
  const pybind11::object cls = pybind11::module_::import("profkit.errors").attr(type);
  PyErr_SetString(cls.ptr(), message);
}

// Sets the Python error of a KernelError or UnsupportedError; every other exception is thrown again.
inline void translate_kernel_error(const std::exception_ptr& pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const KernelError& error) {
    set_error("KernelError", error.what());
  } catch (const UnsupportedError& error) {
    set_error("UnsupportedError", error.what());
  }
}

}  // namespace profkit
