// profkit.scope and profkit.mark: the Python door of the tracer.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

void register_scope(pybind11::module_& module);

}  // namespace profkit
