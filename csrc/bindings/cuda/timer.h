// The timer of device work, for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

void register_cuda_timer(pybind11::module_& module);

}  // namespace profkit
