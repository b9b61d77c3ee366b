// read_capture for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

void register_captures(pybind11::module_& module);

}  // namespace profkit
