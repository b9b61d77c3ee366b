// profkit.scope as a C type: context manager, async context manager and decorator; and profkit.mark. In: a
// name, a number, a category; out: ranges, spans and instants for all listeners.
#include <vector>

#include "bindings/module.h"
#include "bindings/tracer/free_list.h"
#include "bindings/tracer/python_types.h"
#include "bindings/tracer/scope_arguments.h"
#include "bindings/tracer/scope_methods.h"
#include "bindings/tracer/scope_object.h"

namespace py = pybind11;

namespace profkit {
namespace {

// Scopes created for each range take their memory from here.
FreeList<Scope> free_scopes;

PyObject* new_scope(PyObject* name, PyObject* category, const Payload& payload) {
  Scope* scope = free_scopes.take(scope_type);
  if (scope == nullptr) return nullptr;
  scope->name = Py_NewRef(name);
  scope->category = Py_XNewRef(category);
  scope->payload = payload;
  scope->ids = {};
  scope->open_count = 0;
  scope->capacity = 1;
  scope->open = scope->first;
  return reinterpret_cast<PyObject*>(scope);
}

PyObject* refuse_name(const char* what, PyObject* name) {
  return PyErr_Format(PyExc_TypeError, "the name of a %s must be a str, got %.100s", what,
                      Py_TYPE(name)->tp_name);
}

// Decorating is rare and has many cases: profkit/capture/decoration.py does it.
PyObject* decorate(PyObject* scope, PyObject* function) {
  PyObject* module = PyImport_ImportModule("profkit.capture.decoration");
  if (module == nullptr) return nullptr;
  PyObject* result = PyObject_CallMethod(module, "decorate", "OO", scope, function);
  Py_DECREF(module);
  return result;
}

// `@profkit.scope` without a name: the function gives its own.
PyObject* decorate_unnamed(PyObject* function) {
  PyObject* inner = PyObject_GetAttrString(function, "__func__");
  if (inner == nullptr) {
    PyErr_Clear();
    inner = Py_NewRef(function);
  }
  PyObject* name = PyObject_GetAttrString(inner, "__qualname__");
  Py_DECREF(inner);
  if (name == nullptr || !PyUnicode_Check(name)) {
    Py_XDECREF(name);
    PyErr_Clear();
    return refuse_name("scope", function);
  }
  PyObject* scope = new_scope(name, nullptr, {});
  Py_DECREF(name);
  if (scope == nullptr) return nullptr;
  PyObject* result = decorate(scope, function);
  Py_DECREF(scope);
  return result;
}

PyObject* make_scope(PyObject*, PyObject* const* values, size_t flags, PyObject* keywords) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (count == 1 && keywords == nullptr && PyUnicode_CheckExact(values[0])) {
    return new_scope(values[0], nullptr, {});
  }
  ScopeArguments arguments;
  Payload payload;
  if (!read_arguments("scope", values, count, keywords, &arguments)) return nullptr;
  if (!PyUnicode_Check(arguments.name)) {
    const bool is_bare = count == 1 && keywords == nullptr;
    if (is_bare) return decorate_unnamed(arguments.name);
    return refuse_name("scope", arguments.name);
  }
  if (!read_payload(arguments.payload, &payload)) return nullptr;
  return new_scope(arguments.name, arguments.category, payload);
}

// Only reached through type.__call__ of a caller that does not use vectorcall.
PyObject* make_scope_slow(PyTypeObject*, PyObject* values, PyObject* keywords) {
  PyObject* names = keywords != nullptr ? PyDict_Keys(keywords) : PyList_New(0);
  if (names == nullptr) return nullptr;
  const Py_ssize_t positional = PyTuple_GET_SIZE(values), named = PyList_GET_SIZE(names);
  std::vector<PyObject*> all;
  for (Py_ssize_t i = 0; i < positional; ++i) all.push_back(PyTuple_GET_ITEM(values, i));
  for (Py_ssize_t i = 0; i < named; ++i) all.push_back(PyDict_GetItem(keywords, PyList_GET_ITEM(names, i)));
  PyObject* name_tuple = named > 0 ? PyList_AsTuple(names) : nullptr;
  PyObject* result = make_scope(nullptr, all.data(), static_cast<size_t>(positional), name_tuple);
  Py_XDECREF(name_tuple);
  Py_DECREF(names);
  return result;
}

void free_scope(PyObject* self) {
  auto* scope = as_scope(self);
  close_all(scope);
  Py_DECREF(scope->name);
  Py_XDECREF(scope->category);
  free_scopes.give(scope);
}

PyObject* call_scope(PyObject* self, PyObject* values, PyObject* keywords) {
  if (PyTuple_GET_SIZE(values) != 1 || (keywords != nullptr && PyDict_GET_SIZE(keywords) != 0)) {
    PyErr_SetString(PyExc_TypeError,
                    "a scope is used as `with scope:`, `async with scope:` or `@scope` on a function; "
                    "calling it takes that one function");
    return nullptr;
  }
  return decorate(self, PyTuple_GET_ITEM(values, 0));
}

PyObject* get_name(PyObject* self, void*) { return Py_NewRef(as_scope(self)->name); }
PyObject* get_payload(PyObject* self, void*) { return payload_object(as_scope(self)->payload); }
PyObject* get_category(PyObject* self, void*) {
  PyObject* category = as_scope(self)->category;
  return Py_NewRef(category != nullptr ? category : Py_None);
}

// (name, payload, category), a new tuple.
PyObject* arguments_of(PyObject* self) {
  return Py_BuildValue("(NNN)", get_name(self, nullptr), get_payload(self, nullptr),
                       get_category(self, nullptr));
}

PyObject* scope_repr(PyObject* self) {
  PyObject* arguments = arguments_of(self);
  if (arguments == nullptr) return nullptr;
  PyObject* result =
      PyUnicode_FromFormat("profkit.scope(%R, payload=%R, category=%R)", PyTuple_GET_ITEM(arguments, 0),
                           PyTuple_GET_ITEM(arguments, 1), PyTuple_GET_ITEM(arguments, 2));
  Py_DECREF(arguments);
  return result;
}

PyObject* reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("(ON)", reinterpret_cast<PyObject*>(scope_type), arguments_of(self));
}

PyObject* mark(PyObject*, PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  ScopeArguments arguments;
  Payload payload;
  if (!read_arguments("mark", values, count, keywords, &arguments)) return nullptr;
  if (!PyUnicode_Check(arguments.name)) {
    return refuse_name("mark", arguments.name);
  }
  if (!read_payload(arguments.payload, &payload)) return nullptr;
  if (has_listener()) record_mark(find_name(arguments.name, arguments.category), payload);
  Py_RETURN_NONE;
}

PyMethodDef scope_methods[] = {
    {"__aenter__", enter_async, METH_NOARGS, nullptr},
    {"__aexit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(leave_async)), METH_FASTCALL,
     nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef scope_attributes[] = {{"name", get_name, nullptr, "What the range is called.", nullptr},
                                  {"payload", get_payload, nullptr, "Its number, or None.", nullptr},
                                  {"category", get_category, nullptr, "Its category, or None.", nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef module_functions[] = {
    {"mark", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(mark)), METH_FASTCALL | METH_KEYWORDS,
     "mark(name, payload=None, category=None)\n--\n\nRecord an instant, when something records."},
    {nullptr, nullptr, 0, nullptr}};

constexpr const char* kScopeText =
    "scope(name, payload=None, category=None)\n--\n\n"
    "A named range of the program: `with scope:`, `async with scope:` or `@scope` on a function.";

void add_method(const char* name, Action action) {
  PyObject* method = new_scope_method(name, action);
  // The type is immutable from Python; this runs before it is visible.
  PyDict_SetItemString(scope_type->tp_dict, name, method);
  Py_DECREF(method);
}

}  // namespace

void register_scope(py::module_& module) {
  make_scope_method_types();
  PyType_Slot scope_slots[] = {{Py_tp_new, slot(make_scope_slow)},
                               {Py_tp_dealloc, slot(free_scope)},
                               {Py_tp_call, slot(call_scope)},
                               {Py_tp_repr, slot(scope_repr)},
                               {Py_tp_methods, scope_methods},
                               {Py_tp_getset, scope_attributes},
                               {Py_tp_doc, const_cast<char*>(kScopeText)},
                               {0, nullptr}};
  scope_type = make_type("profkit.scope", sizeof(Scope), 0, scope_slots);
  add_method("__enter__", Action::enter);
  add_method("__exit__", Action::leave);
  PyType_Modified(scope_type);
  // A slot for it exists only since Python 3.14.
  scope_type->tp_vectorcall = make_scope;
  module.attr("scope") = py::handle(reinterpret_cast<PyObject*>(scope_type));
  PyModule_AddFunctions(module.ptr(), module_functions);
}

}  // namespace profkit
