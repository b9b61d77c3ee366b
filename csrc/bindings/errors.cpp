// Translates the errors of kernels and of captures for profkit._core.
#include "bindings/errors.h"

#include "bindings/module.h"
#include "captures/read/reader.h"

namespace profkit {

void register_errors() {
  pybind11::register_exception_translator([](std::exception_ptr pointer) {
    try {
      translate_kernel_error(pointer);
    } catch (const captures::CaptureError& error) {
      set_error("CaptureError", error.message.c_str());
    }
  });
}

}  // namespace profkit
