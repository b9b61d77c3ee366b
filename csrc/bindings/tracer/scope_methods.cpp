// How a `with` reaches a scope. Looking up an ordinary method makes a garbage-collected object each time,
// twice per `with`: more than the range itself costs. These descriptors bind to small objects from a free
// list; they hold a scope, which holds only strings: no cycle is possible.
#include "bindings/tracer/scope_methods.h"

#include <pybind11/pybind11.h>
#include <structmember.h>

#include <cstddef>

#include "bindings/tracer/free_list.h"
#include "bindings/tracer/python_types.h"
#include "bindings/tracer/scope_object.h"

namespace profkit {
namespace {

struct BoundMethod {
  PyObject ob_base;
  vectorcallfunc call;
  Scope* scope;
};
struct Method {
  PyObject ob_base;
  vectorcallfunc call;  // on the class: the scope is the first argument
  Action action;
  const char* name;
};

PyTypeObject* bound_type = nullptr;
PyTypeObject* method_type = nullptr;
FreeList<BoundMethod> free_bound_methods;

PyObject* wrong_count(const char* name, const char* expected, Py_ssize_t count) {
  return PyErr_Format(PyExc_TypeError, "scope.%s() takes %s, got %zd arguments", name, expected, count);
}

PyObject* call_enter(PyObject* self, PyObject* const*, size_t flags, PyObject* keywords) {
  if (PyVectorcall_NARGS(flags) != 0 || keywords != nullptr) {
    return wrong_count("__enter__", "nothing", PyVectorcall_NARGS(flags));
  }
  return enter(reinterpret_cast<BoundMethod*>(self)->scope);
}

PyObject* call_exit(PyObject* self, PyObject* const*, size_t flags, PyObject* keywords) {
  if (PyVectorcall_NARGS(flags) != 3 || keywords != nullptr) {
    return wrong_count("__exit__", "an exception's type, value and traceback", PyVectorcall_NARGS(flags));
  }
  return leave(reinterpret_cast<BoundMethod*>(self)->scope);
}

PyObject* call_unbound(PyObject* self, PyObject* const* values, size_t flags, PyObject* keywords) {
  const auto* method = reinterpret_cast<Method*>(self);
  const Py_ssize_t expected = method->action == Action::enter ? 1 : 4;
  if (PyVectorcall_NARGS(flags) != expected || keywords != nullptr || !Py_IS_TYPE(values[0], scope_type)) {
    return PyErr_Format(PyExc_TypeError, "scope.%s needs a scope and %zd more arguments", method->name,
                        expected - 1);
  }
  auto* scope = as_scope(values[0]);
  return method->action == Action::enter ? enter(scope) : leave(scope);
}

PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || !Py_IS_TYPE(object, scope_type)) return Py_NewRef(self);
  BoundMethod* bound = free_bound_methods.take(bound_type);
  if (bound == nullptr) return nullptr;
  bound->call = reinterpret_cast<Method*>(self)->action == Action::enter ? call_enter : call_exit;
  bound->scope = as_scope(Py_NewRef(object));
  return reinterpret_cast<PyObject*>(bound);
}

void free_bound_method(PyObject* self) {
  auto* bound = reinterpret_cast<BoundMethod*>(self);
  Py_DECREF(reinterpret_cast<PyObject*>(bound->scope));
  free_bound_methods.give(bound);
}

// An awaitable that is done: its value is there at once.
struct Done {
  PyObject ob_base;
  PyObject* value;
};
PyTypeObject* done_type = nullptr;

PyObject* done(PyObject* value) {
  auto* result = PyObject_New(Done, done_type);
  if (result != nullptr) result->value = Py_NewRef(value);
  return reinterpret_cast<PyObject*>(result);
}

PyObject* finish_done(PyObject* self) {
  PyObject* value = reinterpret_cast<Done*>(self)->value;
  if (value != Py_None) {
    PyObject* stop = PyObject_CallFunctionObjArgs(PyExc_StopIteration, value, nullptr);
    if (stop != nullptr) {
      PyErr_SetObject(PyExc_StopIteration, stop);
      Py_DECREF(stop);
    }
  }
  return nullptr;
}

void free_done(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_DECREF(reinterpret_cast<Done*>(self)->value);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyMemberDef method_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, call), READONLY, nullptr},
    {"__name__", T_STRING, offsetof(Method, name), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMemberDef bound_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundMethod, call), READONLY, nullptr},
    {"__self__", T_OBJECT, offsetof(BoundMethod, scope), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
}  // namespace

void make_scope_method_types() {
  const auto make_callable = [](const char* name, size_t size, PyType_Slot own, PyMemberDef* members) {
    PyType_Slot slots[] = {
        own, {Py_tp_call, slot(PyVectorcall_Call)}, {Py_tp_members, members}, {0, nullptr}};
    return make_type(name, size, Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
  };
  bound_type = make_callable("profkit._core.bound_scope_method", sizeof(BoundMethod),
                             {Py_tp_dealloc, slot(free_bound_method)}, bound_members);
  method_type = make_callable("profkit._core.scope_method", sizeof(Method),
                              {Py_tp_descr_get, slot(bind_method)}, method_members);
  PyType_Slot done_slots[] = {{Py_tp_dealloc, slot(free_done)},
                              {Py_am_await, slot(PyObject_SelfIter)},
                              {Py_tp_iter, slot(PyObject_SelfIter)},
                              {Py_tp_iternext, slot(finish_done)},
                              {0, nullptr}};
  done_type = make_type("profkit._core.done", sizeof(Done), Py_TPFLAGS_DISALLOW_INSTANTIATION, done_slots);
}

PyObject* new_scope_method(const char* name, Action action) {
  auto* method = PyObject_New(Method, method_type);
  if (method == nullptr) throw pybind11::error_already_set();
  method->call = call_unbound;
  method->action = action;
  method->name = name;
  return reinterpret_cast<PyObject*>(method);
}

PyObject* enter_async(PyObject* self, PyObject*) {
  if (has_listener()) open_range(as_scope(self), true);
  return done(self);
}

PyObject* leave_async(PyObject* self, PyObject* const*, Py_ssize_t count) {
  if (count != 3) return wrong_count("__aexit__", "an exception's type, value and traceback", count);
  auto* scope = as_scope(self);
  if (scope->open_count != 0) close_range(scope, true);
  return done(Py_None);
}

}  // namespace profkit
