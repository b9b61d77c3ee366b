// Making types with the plain C interface of Python, for objects that pybind11's own are too slow for.
#pragma once

#include <pybind11/pybind11.h>

namespace profkit {

template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

// A type that Python code cannot change; kept for the life of the process.
inline PyTypeObject* make_type(const char* name, size_t bytes, unsigned long flags, PyType_Slot* slots) {
  PyType_Spec spec = {name, static_cast<int>(bytes), 0,
                      static_cast<unsigned>(flags | Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE), slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw pybind11::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace profkit
