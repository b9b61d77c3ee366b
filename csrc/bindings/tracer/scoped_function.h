// Functions decorated with a scope.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

// Adds the type `scoped_function(scope, function)`.
void register_scoped_function(pybind11::module_& module);

}  // namespace profkit
