// A plain function decorated with a scope, as a C type: a wrapper in Python would cost three times the range.
// In: a scope and a function; out: a callable that opens one range per call and otherwise is the function.
#include <pybind11/pybind11.h>
#include <structmember.h>

#include <cstddef>

#include "bindings/module.h"
#include "bindings/tracer/python_types.h"
#include "bindings/tracer/scope_object.h"

namespace py = pybind11;

namespace profkit {
namespace {

struct ScopedFunction {
  PyObject ob_base;
  vectorcallfunc call;
  PyObject* scope;
  PyObject* function;
  PyObject* dict;  // what functools.update_wrapper writes
  PyObject* weak_references;
};

ScopedFunction* cast(PyObject* object) { return reinterpret_cast<ScopedFunction*>(object); }

PyObject* call_in_range(PyObject* self, PyObject* const* values, size_t flags, PyObject* keywords) {
  PyObject* function = cast(self)->function;
  if (!has_listener()) return PyObject_Vectorcall(function, values, flags, keywords);
  Scope* scope = as_scope(cast(self)->scope);
  const OpenTokens tokens = begin_range(ids_of(scope), scope->payload);
  PyObject* result = PyObject_Vectorcall(function, values, flags, keywords);
  end_range(tokens, true);
  return result;
}

PyObject* make(PyTypeObject* type, PyObject* values, PyObject* keywords) {
  PyObject* scope = nullptr;
  PyObject* function = nullptr;
  static const char* names[] = {"scope", "function", nullptr};
  if (!PyArg_ParseTupleAndKeywords(values, keywords, "O!O", const_cast<char**>(names), scope_type, &scope,
                                   &function)) {
    return nullptr;
  }
  auto* self = cast(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->call = call_in_range;
  self->scope = Py_NewRef(scope);
  self->function = Py_NewRef(function);
  return reinterpret_cast<PyObject*>(self);
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

// What the wrapper does not have, the function answers: __code__, __defaults__, __globals__.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (value != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError) || cast(self)->function == nullptr) {
    return value;
  }
  PyErr_Clear();
  return PyObject_GetAttr(cast(self)->function, name);
}

PyObject* repr(PyObject* self) { return PyObject_Repr(cast(self)->function); }

// Pickled and copied by name, as functions are.
PyObject* reduce_to_name(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

int visit_all(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(cast(self)->function);
  Py_VISIT(cast(self)->dict);
  return 0;
}

int clear(PyObject* self) {
  // The function stays: a finaliser may still call it. Clearing the dictionary breaks the cycles there are.
  Py_CLEAR(cast(self)->dict);
  return 0;
}

void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (cast(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  Py_CLEAR(cast(self)->dict);
  Py_CLEAR(cast(self)->function);
  Py_CLEAR(cast(self)->scope);
  type->tp_free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyMethodDef methods[] = {{"__reduce__", reduce_to_name, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ScopedFunction, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(ScopedFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ScopedFunction, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

}  // namespace

void register_scoped_function(py::module_& module) {
  PyType_Slot slots[] = {{Py_tp_new, slot(make)},
                         {Py_tp_dealloc, slot(deallocate)},
                         {Py_tp_traverse, slot(visit_all)},
                         {Py_tp_clear, slot(clear)},
                         {Py_tp_call, slot(PyVectorcall_Call)},
                         {Py_tp_descr_get, slot(bind)},
                         {Py_tp_getattro, slot(get_attribute)},
                         {Py_tp_repr, slot(repr)},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, attributes},
                         {Py_tp_members, members},
                         {0, nullptr}};
  PyTypeObject* type =
      make_type("profkit._core.scoped_function", sizeof(ScopedFunction),
                Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots);
  module.attr("scoped_function") = py::handle(reinterpret_cast<PyObject*>(type));
}

}  // namespace profkit
