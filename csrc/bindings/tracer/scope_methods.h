// __enter__, __exit__, __aenter__ and __aexit__ of scopes.
#pragma once

#include <Python.h>

namespace profkit {

// The types that the functions below use; called once, before them.
void make_scope_method_types();

enum class Action : int { enter, leave };
// The descriptor for the type's dictionary under this name; a new reference.
PyObject* new_scope_method(const char* name, Action action);

// As PyMethodDef wants them.
PyObject* enter_async(PyObject* scope, PyObject*);
PyObject* leave_async(PyObject* scope, PyObject* const* values, Py_ssize_t count);

}  // namespace profkit
