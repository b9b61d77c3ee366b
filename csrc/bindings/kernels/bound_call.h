// The kernels and users' candidates as Python functions.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

void register_kernels(pybind11::module_& module);

}  // namespace profkit
