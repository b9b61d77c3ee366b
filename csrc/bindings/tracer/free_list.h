// Memory of small Python objects that come and go with every range: kept instead of freed.
#pragma once

#include <Python.h>

namespace profkit {

// For objects of one type that the garbage collector does not track. What lies here keeps its header and its
// reference to the type, so that taking it out is one store. Guarded by the GIL.
template <class Object>
class FreeList {
 public:
  // An object with one reference, its fields still to be set; nullptr with MemoryError set.
  Object* take(PyTypeObject* type) {
    if (count_ == 0) return PyObject_New(Object, type);
    Object* object = objects_[--count_];
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(object), 1);
    return object;
  }

  // The object's fields have been let go already.
  void give(Object* object) {
    if (count_ < kMax) {
      objects_[count_++] = object;
      return;
    }
    PyTypeObject* type = Py_TYPE(reinterpret_cast<PyObject*>(object));
    PyObject_Free(object);
    Py_DECREF(reinterpret_cast<PyObject*>(type));
  }

 private:
#if defined(Py_TRACE_REFS) || defined(Py_GIL_DISABLED)
  static constexpr int kMax = 0;  // these builds keep account of every object
#else
  static constexpr int kMax = 64;
#endif
  Object* objects_[kMax > 0 ? kMax : 1];
  int count_ = 0;
};

}  // namespace profkit
