// The scope object: what it is called and which of its ranges are open. Everything here needs the GIL.
#pragma once

#include <Python.h>

#include <cstdint>

#include "bindings/tracer/library.h"

namespace profkit {

struct ScopeEntry {
  OpenTokens tokens;
  const void* thread;
  const void* frame;
  bool is_span;
};

// One object may be open several times at once: nested, in recursion, on several threads, in coroutines that
// take turns. A `with` enters and leaves from the same frame, so the frame says which range an exit means.
struct Scope {
  PyObject ob_base;
  PyObject* name;
  PyObject* category;  // or nullptr
  Payload payload;
  RangeName ids;
  uint32_t open_count;
  uint32_t capacity;
  ScopeEntry* open;  // `first`, or memory of our own when more are open
  ScopeEntry first[1];
};

// Set by register_scope.
extern PyTypeObject* scope_type;

inline Scope* as_scope(PyObject* object) { return reinterpret_cast<Scope*>(object); }

// The listeners' ids of the scope's name.
const RangeName& ids_of(Scope* scope);
// Someone listens: begin a range of this frame.
void open_range(Scope* scope, bool is_span);
// End the range that this frame opened; without one (entered by hand, or by an ExitStack) the latest of this
// thread, else the latest of all. Needs at least one that is open.
void close_range(Scope* scope, bool is_span);
// For a scope that is being destroyed.
void close_all(Scope* scope);

// Both are all that an idle `with` runs.
inline PyObject* enter(Scope* scope) {
  if (has_listener()) open_range(scope, false);
  return Py_NewRef(reinterpret_cast<PyObject*>(scope));
}
// Entered while idle, a scope has nothing open, whatever records now.
inline PyObject* leave(Scope* scope) {
  if (scope->open_count != 0) close_range(scope, false);
  Py_RETURN_NONE;
}

}  // namespace profkit
