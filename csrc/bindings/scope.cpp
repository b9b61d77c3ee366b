// profkit.scope as a C type: context manager, async context manager and decorator. One flag test when idle.
// In: a name, a number, a category; out: ranges and spans to the recorder and to another NVTX tool.
#include "bindings/scope.h"

#include <structmember.h>

#include <cstddef>
#include <cstdlib>
#include <vector>

#include "bindings/free_list.h"
#include "bindings/scope_arguments.h"
#include "bindings/tracer.h"

namespace py = pybind11;

namespace profkit {
namespace {

// --- Which range an exit belongs to
// ---------------------------------------------------------------------------- One scope object may be open
// several times at once: nested, in recursion, on several threads, in coroutines that take turns. A `with`
// enters and leaves from the same frame, so the frame says which range is meant.
const void* current_frame([[maybe_unused]] const PyThreadState* thread) {
#if defined(PYPY_VERSION)
  return nullptr;
#elif PY_VERSION_HEX >= 0x030D0000
  return thread->current_frame;
#elif PY_VERSION_HEX >= 0x030B0000
  return thread->cframe->current_frame;
#else
  return thread->frame;
#endif
}

struct OpenRange {
  OpenTokens tokens;
  const void* thread;
  const void* frame;
  bool is_span;
};

struct Scope {
  PyObject_HEAD PyObject* name;
  PyObject* category;  // or nullptr
  Payload payload;
  RangeName ids;
  uint32_t open_count;
  uint32_t capacity;
  OpenRange* open;  // `first`, or memory of our own when more are open
  OpenRange first[1];
};

PyTypeObject* scope_type = nullptr;

// Scopes made anew for each range take their memory from here.
FreeList<Scope> free_scopes;

bool grow(Scope* scope) {
  const uint32_t capacity = scope->capacity * 4;
  auto* memory = static_cast<OpenRange*>(std::malloc(capacity * sizeof(OpenRange)));
  if (memory == nullptr) return false;
  for (uint32_t i = 0; i < scope->open_count; ++i) memory[i] = scope->open[i];
  if (scope->open != scope->first) std::free(scope->open);
  scope->open = memory;
  scope->capacity = capacity;
  return true;
}

void close(const OpenRange& range, const void* thread) {
  if (range.is_span) {
    end_span(range.tokens);
  } else {
    end_range(range.tokens, range.thread == thread);
  }
}

const RangeName& ids_of(Scope* scope) {
  if (!scope->ids.is_known()) scope->ids = find_name(scope->name, scope->category);
  return scope->ids;
}

// Out of line: what is left of an enter once someone listens.
__attribute__((noinline)) void open_range(Scope* scope, bool is_span) {
  if (scope->open_count == scope->capacity && !grow(scope)) return;
  const PyThreadState* thread = PyThreadState_Get();
  OpenRange& range = scope->open[scope->open_count];
  range.thread = thread;
  range.frame = current_frame(thread);
  range.is_span = is_span;
  range.tokens =
      is_span ? begin_span(ids_of(scope), scope->payload) : begin_range(ids_of(scope), scope->payload);
  if ((range.tokens.recorded | range.tokens.nvtx) != 0) ++scope->open_count;
}

// The latest of this frame; without one (entered by hand, or by an ExitStack) the latest of this thread; else
// the latest of all.
uint32_t find_open(const Scope* scope, bool is_span, const PyThreadState* thread) {
  const void* frame = current_frame(thread);
  uint32_t same_thread = scope->open_count, any = scope->open_count;
  for (uint32_t i = scope->open_count; i-- > 0;) {
    const OpenRange& range = scope->open[i];
    if (range.is_span != is_span) continue;
    if (range.frame == frame && range.thread == thread) return i;
    if (range.frame == frame && frame != nullptr) return i;  // a generator that went on in another thread
    if (any == scope->open_count) any = i;
    if (range.thread == thread && same_thread == scope->open_count) same_thread = i;
  }
  return same_thread != scope->open_count ? same_thread : any;
}

__attribute__((noinline)) void close_range(Scope* scope, bool is_span) {
  const PyThreadState* thread = PyThreadState_Get();
  const uint32_t index = find_open(scope, is_span, thread);
  if (index == scope->open_count) return;
  const OpenRange range = scope->open[index];
  --scope->open_count;
  for (uint32_t i = index; i < scope->open_count; ++i) scope->open[i] = scope->open[i + 1];
  close(range, thread);
}

PyObject* enter(Scope* scope) {
  if (anyone_listens()) open_range(scope, false);
  return Py_NewRef(reinterpret_cast<PyObject*>(scope));
}

// Entered while idle, a scope has nothing open, whatever records now.
PyObject* leave(Scope* scope) {
  if (scope->open_count != 0) close_range(scope, false);
  Py_RETURN_NONE;
}

// --- __enter__ and __exit__
// ------------------------------------------------------------------------------------ Looking up an ordinary
// method makes a garbage-collected object each time, twice per `with`: more than the range itself costs.
// These descriptors bind to small objects from a free list. They hold a scope, which holds only strings: no
// cycle is possible.
enum class Action : int { enter, leave };

struct BoundMethod {
  PyObject_HEAD vectorcallfunc call;
  Scope* scope;
};
struct Method {
  PyObject_HEAD vectorcallfunc call;  // on the class: the scope is the first argument
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
  auto* scope = reinterpret_cast<Scope*>(values[0]);
  return method->action == Action::enter ? enter(scope) : leave(scope);
}

PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || !Py_IS_TYPE(object, scope_type)) return Py_NewRef(self);
  BoundMethod* bound = free_bound_methods.take(bound_type);
  if (bound == nullptr) return nullptr;
  bound->call = reinterpret_cast<Method*>(self)->action == Action::enter ? call_enter : call_exit;
  bound->scope = reinterpret_cast<Scope*>(Py_NewRef(object));
  return reinterpret_cast<PyObject*>(bound);
}

void free_bound_method(PyObject* self) {
  auto* bound = reinterpret_cast<BoundMethod*>(self);
  Py_DECREF(reinterpret_cast<PyObject*>(bound->scope));
  free_bound_methods.give(bound);
}

// --- async with
// ------------------------------------------------------------------------------------------------ An
// awaitable that is done: its value is there at once.
struct Done {
  PyObject_HEAD PyObject* value;
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

PyObject* enter_async(PyObject* self, PyObject*) {
  if (anyone_listens()) open_range(reinterpret_cast<Scope*>(self), true);
  return done(self);
}

PyObject* leave_async(PyObject* self, PyObject* const*, Py_ssize_t count) {
  if (count != 3) return wrong_count("__aexit__", "an exception's type, value and traceback", count);
  auto* scope = reinterpret_cast<Scope*>(self);
  if (scope->open_count != 0) close_range(scope, true);
  return done(Py_None);
}

// --- The object
// ------------------------------------------------------------------------------------------------
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
    return PyErr_Format(PyExc_TypeError, "the name of a scope must be a str, got %.100s",
                        Py_TYPE(function)->tp_name);
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
    return PyErr_Format(PyExc_TypeError, "the name of a scope must be a str, got %.100s",
                        Py_TYPE(arguments.name)->tp_name);
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
  auto* scope = reinterpret_cast<Scope*>(self);
  // A scope that nobody can leave any more ends here.
  while (scope->open_count != 0) close(scope->open[--scope->open_count], PyThreadState_Get());
  if (scope->open != scope->first) std::free(scope->open);
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

PyObject* get_name(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<Scope*>(self)->name); }
PyObject* get_payload(PyObject* self, void*) {
  return payload_object(reinterpret_cast<Scope*>(self)->payload);
}
PyObject* get_category(PyObject* self, void*) {
  PyObject* category = reinterpret_cast<Scope*>(self)->category;
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

// --- mark
// ------------------------------------------------------------------------------------------------------
PyObject* mark(PyObject*, PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  ScopeArguments arguments;
  Payload payload;
  if (!read_arguments("mark", values, count, keywords, &arguments)) return nullptr;
  if (!PyUnicode_Check(arguments.name)) {
    return PyErr_Format(PyExc_TypeError, "the name of a mark must be a str, got %.100s",
                        Py_TYPE(arguments.name)->tp_name);
  }
  if (!read_payload(arguments.payload, &payload)) return nullptr;
  if (anyone_listens()) record_mark(find_name(arguments.name, arguments.category), payload);
  Py_RETURN_NONE;
}

// --- Types
// -----------------------------------------------------------------------------------------------------
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
PyMemberDef method_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, call), READONLY, nullptr},
    {"__name__", T_STRING, offsetof(Method, name), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMemberDef bound_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundMethod, call), READONLY, nullptr},
    {"__self__", T_OBJECT, offsetof(BoundMethod, scope), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef module_functions[] = {
    {"mark", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(mark)), METH_FASTCALL | METH_KEYWORDS,
     "mark(name, payload=None, category=None)\n--\n\nRecord an instant, when something records."},
    {nullptr, nullptr, 0, nullptr}};

constexpr const char* kScopeText =
    "scope(name, payload=None, category=None)\n--\n\n"
    "A named range of the program: `with scope:`, `async with scope:` or `@scope` on a function.";

template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

PyTypeObject* make_type(const char* name, size_t bytes, unsigned flags, PyType_Slot* slots) {
  PyType_Spec spec = {name, static_cast<int>(bytes), 0,
                      static_cast<unsigned>(flags | Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE), slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw py::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

void make_inner_types() {
  PyType_Slot bound_slots[] = {{Py_tp_dealloc, slot(free_bound_method)},
                               {Py_tp_call, slot(PyVectorcall_Call)},
                               {Py_tp_members, bound_members},
                               {0, nullptr}};
  bound_type = make_type("profkit._core.bound_scope_method", sizeof(BoundMethod),
                         Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, bound_slots);
  PyType_Slot method_slots[] = {{Py_tp_descr_get, slot(bind_method)},
                                {Py_tp_call, slot(PyVectorcall_Call)},
                                {Py_tp_members, method_members},
                                {0, nullptr}};
  method_type = make_type("profkit._core.scope_method", sizeof(Method),
                          Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, method_slots);
  PyType_Slot done_slots[] = {{Py_tp_dealloc, slot(free_done)},
                              {Py_am_await, slot(PyObject_SelfIter)},
                              {Py_tp_iter, slot(PyObject_SelfIter)},
                              {Py_tp_iternext, slot(finish_done)},
                              {0, nullptr}};
  done_type = make_type("profkit._core.done", sizeof(Done), Py_TPFLAGS_DISALLOW_INSTANTIATION, done_slots);
}

void add_method(const char* name, Action action) {
  auto* method = PyObject_New(Method, method_type);
  if (method == nullptr) throw py::error_already_set();
  method->call = call_unbound;
  method->action = action;
  method->name = name;
  // The type is immutable for everyone else; this is before anybody sees it.
  PyDict_SetItemString(scope_type->tp_dict, name, reinterpret_cast<PyObject*>(method));
  Py_DECREF(reinterpret_cast<PyObject*>(method));
}

}  // namespace

PyTypeObject* scope_class() { return scope_type; }

OpenTokens begin_scope_range(PyObject* object) {
  auto* scope = reinterpret_cast<Scope*>(object);
  return begin_range(ids_of(scope), scope->payload);
}

void register_scope(py::module_& module) {
  make_inner_types();
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
