// Which ranges of a scope are open, and which of them an exit closes.
#include "bindings/tracer/scope_object.h"

#include <cstdlib>

#include "bindings/tracer/scope_arguments.h"

namespace profkit {

PyTypeObject* scope_type = nullptr;

namespace {

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

bool grow(Scope* scope) {
  const uint32_t capacity = scope->capacity * 4;
  auto* memory = static_cast<ScopeEntry*>(std::malloc(capacity * sizeof(ScopeEntry)));
  if (memory == nullptr) return false;
  for (uint32_t i = 0; i < scope->open_count; ++i) memory[i] = scope->open[i];
  if (scope->open != scope->first) std::free(scope->open);
  scope->open = memory;
  scope->capacity = capacity;
  return true;
}

void close(const ScopeEntry& range, const void* thread) {
  if (range.is_span) {
    end_span(range.tokens);
  } else {
    end_range(range.tokens, range.thread == thread);
  }
}

// The index of what close_range() means; open_count when nothing fits.
uint32_t find_open(const Scope* scope, bool is_span, const PyThreadState* thread) {
  const void* frame = current_frame(thread);
  uint32_t same_thread = scope->open_count, any = scope->open_count;
  for (uint32_t i = scope->open_count; i-- > 0;) {
    const ScopeEntry& range = scope->open[i];
    if (range.is_span != is_span) continue;
    // Not the thread: a generator may resume in another one.
    if (range.frame == frame && frame != nullptr) return i;
    if (any == scope->open_count) any = i;
    if (range.thread == thread && same_thread == scope->open_count) same_thread = i;
  }
  return same_thread != scope->open_count ? same_thread : any;
}

}  // namespace

const RangeName& ids_of(Scope* scope) {
  if (!scope->ids.is_known()) scope->ids = find_name(scope->name, scope->category);
  return scope->ids;
}

void open_range(Scope* scope, bool is_span) {
  const RangeName& ids = ids_of(scope);
  if (scope->open_count == scope->capacity && !grow(scope)) return;
  const PyThreadState* thread = PyThreadState_Get();
  // Kept even if the recorder took no range (nested too deep): its exit must not close another one.
  ScopeEntry& range = scope->open[scope->open_count++];
  range.thread = thread;
  range.frame = current_frame(thread);
  range.is_span = is_span;
  range.tokens = is_span ? begin_span(ids, scope->payload) : begin_range(ids, scope->payload);
}

void close_range(Scope* scope, bool is_span) {
  const PyThreadState* thread = PyThreadState_Get();
  const uint32_t index = find_open(scope, is_span, thread);
  if (index == scope->open_count) return;
  const ScopeEntry range = scope->open[index];
  --scope->open_count;
  for (uint32_t i = index; i < scope->open_count; ++i) scope->open[i] = scope->open[i + 1];
  close(range, thread);
}

void close_all(Scope* scope) {
  const PyThreadState* thread = PyThreadState_Get();
  while (scope->open_count != 0) close(scope->open[--scope->open_count], thread);
  if (scope->open != scope->first) std::free(scope->open);
}

}  // namespace profkit
