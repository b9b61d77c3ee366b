// profkit.scope and profkit.mark: the Python door of the tracer.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/tracer/library.h"

namespace profkit {

void register_scope(pybind11::module_& module);

// The type of scopes.
PyTypeObject* scope_class();
// A range called as this scope is; the caller keeps the tokens and closes it. Needs the GIL.
OpenTokens begin_scope_range(PyObject* scope);

}  // namespace profkit
