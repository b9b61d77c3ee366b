// The INTEL_LIBITTNOTIFY64 door: every module that uses ITT hands over the list of its function pointers, and
// those below are set to ours. Calls that are not here (counters, metadata, locks, heaps, pause) stay no-ops.
// Tasks are ranges of the thread, popped within their domain; overlapped tasks, frames and events are spans.
#include "tracer/doors/open.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "tracer/core/export.h"
#include "tracer/core/recorder.h"
#include "tracer/core/thread_names.h"
#include "tracer/core/threads.h"
#include "tracer/doors/itt_abi.h"
#include "tracer/doors/itt_names.h"
#include "tracer/doors/itt_open_spans.h"
#include "tracer/doors/thread.h"
#include "tracer/doors/wide_text.h"

namespace profkit::tracer {
namespace {

using itt::Domain;
using itt::Event;
using itt::Id;
using itt::StringHandle;

std::atomic<bool> itt_is_open{false};

// --- Names ---
template <class Char>
Domain* domain_create(const Char* name) {
  return itt_domain(GivenText(name).view());
}
template <class Char>
StringHandle* string_handle_create(const Char* text) {
  return itt_string(GivenText(text).view());
}
template <class Char>
void thread_set_name(const Char* name) {
  name_thread(static_cast<uint64_t>(syscall(SYS_gettid)), GivenText(name).view());
}

// --- Tasks: begin and end meet within a domain; group 0 is that of NVTX's default domain ---
constexpr uint32_t kNoDomainGroup = kNoGroup - 1;
uint32_t group_of(uint32_t domain) { return domain == 0 ? kNoDomainGroup : domain; }

void begin_task(const Domain* domain, const StringHandle* name) {
  const DoorCall call;
  if (!call) return;
  const uint32_t id = id_of(domain);
  const uint32_t label = call.thread->label_of_string(name, id_of(name), {id, 0, 0}, Source::itt);
  call.thread->push(*call.recorder, label, group_of(id));
}

void task_begin(const Domain* domain, Id, Id, StringHandle* name) { begin_task(domain, name); }

// A task named by its function, whose symbol may be anything: the address is what is known for certain.
void task_begin_fn(const Domain* domain, Id, Id, void* function) {
  char text[32];
  std::snprintf(text, sizeof(text), "function %p", function);
  begin_task(domain, itt_string(text));
}

void task_end(const Domain* domain) {
  if (const DoorCall call; call) call.thread->pop(*call.recorder, group_of(id_of(domain)));
}

void marker(const Domain* domain, Id, StringHandle* name, int) {
  const DoorCall call;
  if (!call) return;
  call.recorder->mark(call.thread->label_of_string(name, id_of(name), {id_of(domain), 0, 0}, Source::itt));
}

// --- Spans ---
void begin_span(const IttSpanKey& key, uint32_t domain, uint32_t string) {
  ThreadRecorder* recorder = this_thread();
  if (recorder == nullptr) return;
  const uint64_t span = next_span_id(*recorder);
  recorder->span_begin(span, label_id({string, domain, 0, 0, Source::itt}));
  if (!remember_open_span(key, span)) losses.too_deep.fetch_add(1, std::memory_order_relaxed);  // its end
}

void end_span(const IttSpanKey& key) {
  const uint64_t span = take_open_span(key);
  ThreadRecorder* recorder = span == 0 ? nullptr : this_thread();
  if (recorder != nullptr) recorder->span_end(span);
}

// Owners of different kinds must not meet: the address of a domain, marked by its lowest bits, or an event.
uint64_t task_owner(const Domain* domain) { return reinterpret_cast<uint64_t>(domain); }
uint64_t frame_owner(const Domain* domain) { return reinterpret_cast<uint64_t>(domain) | 1; }
// The recorder knows the thread's number without a system call.
uint64_t event_owner(Event event) {
  const ThreadRecorder* const recorder = this_thread();
  const uint64_t thread = recorder == nullptr ? 0 : recorder->os_thread_id();
  return (uint64_t{1} << 63) | (thread << 32) | static_cast<uint32_t>(event);
}

void task_begin_overlapped(const Domain* domain, Id id, Id, StringHandle* name) {
  begin_span({task_owner(domain), id}, id_of(domain), id_of(name));
}
void task_end_overlapped(const Domain* domain, Id id) { end_span({task_owner(domain), id}); }

// Frames have no names: they are the beat of their domain. Without an id one is open per domain.
void frame_begin(const Domain* domain, Id* id) {
  begin_span({frame_owner(domain), id == nullptr ? Id{} : *id}, id_of(domain), string_id("frame"));
}
void frame_end(const Domain* domain, Id* id) { end_span({frame_owner(domain), id == nullptr ? Id{} : *id}); }

// Events are numbers, here the ids of their names; one that never ends stays open in the capture.
Event event_create(const char* name, int length) {
  if (name == nullptr || length < 0) return 0;
  return static_cast<Event>(string_id({name, strnlen(name, static_cast<size_t>(length))}));
}
Event event_create_w(const wchar_t* name, int length) {
  return length < 0 ? 0 : static_cast<Event>(string_id(GivenText(name, static_cast<size_t>(length)).view()));
}
int event_start(Event event) {
  if (event <= 0) return 1;
  begin_span({event_owner(event), {}}, 0, static_cast<uint32_t>(event));
  return 0;
}
int event_end(Event event) {
  if (event <= 0) return 1;
  end_span({event_owner(event), {}});
  return 0;
}

// --- Attaching ---
struct Replacement {
  const char* name;
  void* function;
};
template <typename F>
Replacement replace(const char* name, F function) {
  return {name, reinterpret_cast<void*>(function)};
}

void attach(const itt::Global& global, int groups) {
  const Replacement replacements[] = {
      replace("__itt_domain_create", domain_create<char>),
      replace("__itt_domain_createA", domain_create<char>),
      replace("__itt_domain_createW", domain_create<wchar_t>),
      replace("__itt_string_handle_create", string_handle_create<char>),
      replace("__itt_string_handle_createA", string_handle_create<char>),
      replace("__itt_string_handle_createW", string_handle_create<wchar_t>),
      replace("__itt_thread_set_name", thread_set_name<char>),
      replace("__itt_thread_set_nameA", thread_set_name<char>),
      replace("__itt_thread_set_nameW", thread_set_name<wchar_t>),
      replace("__itt_task_begin", task_begin),
      replace("__itt_task_begin_fn", task_begin_fn),
      replace("__itt_task_end", task_end),
      replace("__itt_task_begin_overlapped", task_begin_overlapped),
      replace("__itt_task_end_overlapped", task_end_overlapped),
      replace("__itt_marker", marker),
      replace("__itt_frame_begin_v3", frame_begin),
      replace("__itt_frame_end_v3", frame_end),
      replace("__itt_event_create", event_create),
      replace("__itt_event_createA", event_create),
      replace("__itt_event_createW", event_create_w),
      replace("__itt_event_start", event_start),
      replace("__itt_event_end", event_end),
  };
  for (const itt::ApiEntry* entry = global.api; entry->name != nullptr; ++entry) {
    if ((entry->group & groups) == 0 || entry->function == nullptr) continue;
    for (const Replacement& replacement : replacements) {
      if (std::strcmp(entry->name, replacement.name) == 0) *entry->function = replacement.function;
    }
  }
}

}  // namespace

bool itt_door_is_open() { return itt_is_open.load(std::memory_order_relaxed); }

}  // namespace profkit::tracer

// Called by each module's ITT code when it first uses ITT; `groups` are the bits of INTEL_ITTNOTIFY_GROUPS,
// normally all.
PROFKIT_EXPORT void __itt_api_init(profkit::tracer::itt::Global* global, int groups) {
  using namespace profkit::tracer;
  if (global == nullptr || std::memcmp(global->magic, itt::kMagic, sizeof(itt::kMagic)) != 0) return;
  if (global->version_major != itt::kVersion || global->api == nullptr) return;
  attach(*global, groups);
  itt_is_open.store(true, std::memory_order_relaxed);
}
