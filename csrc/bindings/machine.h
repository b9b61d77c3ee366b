// The machine and the build as Python functions.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

void register_machine(pybind11::module_& module);

}  // namespace profkit
