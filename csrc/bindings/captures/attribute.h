// Attribution's native passes as Python functions.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

void register_attribution(pybind11::module_& module);

}  // namespace profkit
