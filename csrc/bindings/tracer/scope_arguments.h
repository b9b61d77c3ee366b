// The arguments of profkit.scope and profkit.mark: Python objects in, a name and a number for the tracer out.
#pragma once

#include <Python.h>

#include "bindings/tracer/library.h"

namespace profkit {

// (name, payload=None, category=None), borrowed; the absent ones are nullptr.
struct ScopeArguments {
  PyObject* name = nullptr;
  PyObject* payload = nullptr;
  PyObject* category = nullptr;
};

// False with a Python exception set. `who` is "scope" or "mark".
bool read_arguments(const char* who, PyObject* const* values, Py_ssize_t count, PyObject* keywords,
                    ScopeArguments* result);
// None means no payload. False with an exception set when the object is not a number of 64 bits.
bool read_payload(PyObject* object, Payload* result);
// The number as a Python object again; a new reference.
PyObject* payload_object(const Payload& payload);

// The listeners' ids of a name; they are kept by the string object's identity, so that a literal is looked up
// without hashing its text. `category` may be nullptr. Never fails: what cannot be encoded is escaped.
RangeName find_name(PyObject* name, PyObject* category);

}  // namespace profkit
