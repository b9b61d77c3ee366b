// Python's door to the recorder: start, stop, names, and spans around Python calls. Compiled on first use
// against the torch that is installed (build.py). Define NDEBUG: at::RecordFunction has another layout
// without it.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "callbacks.h"

namespace profkit::torch_source {
namespace {

using c10::ThreadLocalDebugInfo;
const auto kSlot = c10::DebugInfoKind::PROFILER_STATE;

at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
bool records_memory = false;

PyObject* start(PyObject*, PyObject* arguments) {
  int memory = 1, operands = 1;
  PyObject* helpers = nullptr;
  if (!PyArg_ParseTuple(arguments, "ppO!", &memory, &operands, &PyTuple_Type, &helpers)) return nullptr;
  if (session().running.load() != 0) {
    PyErr_SetString(PyExc_RuntimeError, "the recorder runs already");
    return nullptr;
  }
  if (memory && ThreadLocalDebugInfo::get(kSlot) != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "another profiler of torch is active on this thread: stop it first");
    return nullptr;
  }
  session().helpers.clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(helpers); ++i) {
    session().helpers.push_back(static_cast<clockid_t>(PyLong_AsLong(PyTuple_GET_ITEM(helpers, i))));
  }
  if (PyErr_Occurred()) return nullptr;
  session().start();
  ThreadLog& log = *current_thread()->log;  // its memory is ready before the first operator
  log.helpers = session().helpers.empty() ? nullptr : &session().helpers;
  records_memory = memory != 0;
  if (records_memory) ThreadLocalDebugInfo::_push(kSlot, std::make_shared<MemoryReporter>());
  callback = at::addGlobalCallback(
      at::RecordFunctionCallback(&begin_operator, &end_operator).needsInputs(operands != 0));
  Py_RETURN_NONE;
}

bool put(PyObject* dictionary, const char* key, PyObject* value) {
  const bool is_done = value != nullptr && PyDict_SetItemString(dictionary, key, value) == 0;
  Py_XDECREF(value);
  return is_done;
}

bool put(PyObject* dictionary, const char* key, const std::string& bytes) {
  return put(dictionary, key, PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

PyObject* as_dictionary(ThreadLog& log) {
  PyObject* const result = PyDict_New();
  if (result != nullptr && put(result, "os_id", PyLong_FromLongLong(log.os_id)) &&
      put(result, "torch_id", PyLong_FromUnsignedLongLong(log.torch_id)) &&
      put(result, "lost", PyLong_FromLongLong(log.lost.load())) && put(result, "spans", log.spans.bytes()) &&
      put(result, "allocations", log.allocations.bytes()) && put(result, "words", log.words.bytes())) {
    return result;
  }
  Py_XDECREF(result);
  return nullptr;
}

PyObject* stop(PyObject*, PyObject*) {
  if (callback == at::INVALID_CALLBACK_HANDLE) {
    PyErr_SetString(PyExc_RuntimeError, "the recorder does not run");
    return nullptr;
  }
  at::removeCallback(callback);
  callback = at::INVALID_CALLBACK_HANDLE;
  if (records_memory && ThreadLocalDebugInfo::get(kSlot) != nullptr) ThreadLocalDebugInfo::_pop(kSlot);
  const auto logs = session().stop();
  PyObject* const result = PyList_New(0);
  if (result == nullptr) return nullptr;
  for (const auto& log : logs) {
    PyObject* const entry = as_dictionary(*log);
    const bool is_done = entry != nullptr && PyList_Append(result, entry) == 0;
    Py_XDECREF(entry);
    if (!is_done) {
      Py_DECREF(result);
      return nullptr;
    }
  }
  return result;
}

PyObject* list_names(PyObject*, PyObject*) {
  const auto all = names().all();
  PyObject* const result = PyList_New(static_cast<Py_ssize_t>(all.size()));
  if (result == nullptr) return nullptr;
  for (size_t i = 0; i < all.size(); ++i) {
    PyObject* const text =
        PyUnicode_DecodeUTF8(all[i].data(), static_cast<Py_ssize_t>(all[i].size()), "replace");
    if (text == nullptr) {
      Py_DECREF(result);
      return nullptr;
    }
    PyList_SET_ITEM(result, static_cast<Py_ssize_t>(i), text);
  }
  return result;
}

// A callable that runs another one inside a span.
struct Spanned {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* function;
  int32_t name;
  int32_t scope;
};

PyObject* call_spanned(PyObject* self, PyObject* const* arguments, size_t count, PyObject* keywords) {
  Spanned* const spanned = reinterpret_cast<Spanned*>(self);
  Thread* const thread = current_thread();
  // The call's own frame is what to close: the same callable may be open twice on a thread.
  Span* const span = thread != nullptr ? thread->log->open(&spanned) : nullptr;
  if (span != nullptr) {
    span->name = spanned->name;
    span->scope = spanned->scope;
    span->sequence = -1;
    span->start_ns = monotonic_ns();
  }
  PyObject* const result = PyObject_Vectorcall(spanned->function, arguments, count, keywords);
  if (span != nullptr) {
    const int64_t now_ns = monotonic_ns();
    Thread* const still = current_thread();
    if (still != nullptr) still->log->close(&spanned, now_ns);
  }
  return result;
}

int traverse_spanned(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<Spanned*>(self)->function);
  Py_VISIT(Py_TYPE(self));
  return 0;
}

int clear_spanned(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Spanned*>(self)->function);
  return 0;
}

void free_spanned(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear_spanned(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyTypeObject* spanned_type = nullptr;

bool make_spanned_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Spanned, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_dealloc, reinterpret_cast<void*>(free_spanned)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse_spanned)},
      {Py_tp_clear, reinterpret_cast<void*>(clear_spanned)},
      {Py_tp_members, members},
      {0, nullptr},
  };
  static PyType_Spec spec = {"profkit_torch_recorder.Spanned", sizeof(Spanned), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC, slots};
  spanned_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return spanned_type != nullptr;
}

PyObject* spanned(PyObject*, PyObject* arguments) {
  int scope = 0;
  const char* name = nullptr;
  PyObject* function = nullptr;
  if (!PyArg_ParseTuple(arguments, "isO", &scope, &name, &function)) return nullptr;
  Spanned* const result = PyObject_GC_New(Spanned, spanned_type);
  if (result == nullptr) return nullptr;
  result->vectorcall = call_spanned;
  result->function = Py_NewRef(function);
  result->name = names().number_of(name);
  result->scope = scope;
  PyObject_GC_Track(reinterpret_cast<PyObject*>(result));
  return reinterpret_cast<PyObject*>(result);
}

// The memory of a recording may not be there; no C++ exception may pass through Python's frames.
template <PyObject* (*function)(PyObject*, PyObject*)>
PyObject* guarded(PyObject* self, PyObject* arguments) noexcept {
  try {
    return function(self, arguments);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyMethodDef methods[] = {
    {"start", guarded<start>, METH_VARARGS,
     "start(memory, operands, clocks): record from now on; clocks are those of this thread's helpers."},
    {"stop", guarded<stop>, METH_NOARGS, "End recording: one dictionary of columns per thread, as bytes."},
    {"names", guarded<list_names>, METH_NOARGS, "All names; a span has its index."},
    {"spanned", guarded<spanned>, METH_VARARGS,
     "spanned(scope, name, function): the function, inside a span."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "profkit_torch_recorder",
                          "Records torch's operators, memory and layers.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace profkit::torch_source

PyMODINIT_FUNC PyInit_profkit_torch_recorder() {
  if (!profkit::torch_source::make_spanned_type()) return nullptr;
  return PyModule_Create(&profkit::torch_source::definition);
}
