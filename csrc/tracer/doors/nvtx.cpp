// The NVTX_INJECTION64_PATH door: NVTX hands over its function tables, once per module of the program that
// uses it, and from then on the calls arrive here and leave as records. InitializeInjectionNvtxExtension is
// not exported on purpose: without it nvtxDomainIsEnabled() answers 1.
#include "tracer/doors/open.h"

#include <atomic>

#include "tracer/core/export.h"
#include "tracer/core/recorder.h"
#include "tracer/core/thread_names.h"
#include "tracer/doors/nvtx_abi.h"
#include "tracer/doors/nvtx_categories.h"
#include "tracer/doors/thread.h"
#include "tracer/doors/wide_text.h"

namespace profkit::tracer {
namespace {

using nvtx::DomainHandle;
using nvtx::EventAttributes;

std::atomic<bool> nvtx_is_open{false};

// --- Handles: the recorder's ids, tagged to recognise foreign ones; never dereferenced ---
constexpr uint64_t kDomainTag = 0x706B4400ull << 32;
constexpr uint64_t kStringTag = 0x706B5300ull << 32;
constexpr uint64_t kResource = 0x706B5200ull << 32;
constexpr uint64_t kTagMask = 0xFFFFFFFFull << 32;

uint32_t untagged(const void* handle, uint64_t tag) {
  const uint64_t bits = reinterpret_cast<uint64_t>(handle);
  return (bits & kTagMask) == tag ? static_cast<uint32_t>(bits) : 0;
}

// 0 for the default domain, whose handle is NULL. A domain is also the group in which pops find their pushes.
uint32_t domain_of(const DomainHandle* handle) { return untagged(handle, kDomainTag); }

// --- Names ---
constexpr char kUnnamed[] = "(unnamed)";

uint32_t label_of_wide(const wchar_t* text, const DoorThread::LabelStyle& style) {
  return label_id(
      {string_id(GivenText(text).view()), style.domain, style.category, style.colour, Source::nvtx});
}

uint32_t label_of(DoorThread& thread, uint32_t domain, const EventAttributes* event) {
  if (event == nullptr || event->bytes < sizeof(EventAttributes)) {
    return thread.label_of_text(kUnnamed, {domain, 0, 0}, Source::nvtx);
  }
  const uint32_t colour = event->colour_type == nvtx::kColourArgb ? event->colour : 0;
  const DoorThread::LabelStyle style{domain, nvtx_category(domain, event->category), colour};
  if (event->message_type == nvtx::kMessageRegistered) {
    const uint32_t string = untagged(event->message.registered, kStringTag);
    if (string != 0) return thread.label_of_string(event->message.registered, string, style, Source::nvtx);
  } else if (event->message_type == nvtx::kMessageAscii && event->message.ascii != nullptr) {
    return thread.label_of_text(event->message.ascii, style, Source::nvtx);
  } else if (event->message_type == nvtx::kMessageWide && event->message.wide != nullptr) {
    return label_of_wide(event->message.wide, style);
  }
  return thread.label_of_text(kUnnamed, style, Source::nvtx);
}

// --- Payloads ---
uint64_t extended_bytes(const EventAttributes& event) {
  const auto* parts = reinterpret_cast<const nvtx::ExtendedPayload*>(event.payload);
  uint64_t bytes = 0;
  for (int32_t i = 0; parts != nullptr && i < event.extended_count; ++i) {
    if (parts[i].bytes != SIZE_MAX) bytes += parts[i].bytes;
  }
  return bytes;
}

Payload payload_of(const EventAttributes* event) {
  if (event == nullptr || event->bytes < sizeof(EventAttributes)) return {};
  const uint64_t low = event->payload & 0xFFFFFFFFu;
  switch (event->payload_type) {
    case nvtx::kPayloadUint64:
      return {PayloadType::uint64, event->payload};
    case nvtx::kPayloadInt64:
      return {PayloadType::int64, event->payload};
    case nvtx::kPayloadDouble:
      return {PayloadType::float64, event->payload};
    case nvtx::kPayloadUint32:
      return {PayloadType::uint32, low};
    case nvtx::kPayloadInt32:
      return {PayloadType::int32, low};
    case nvtx::kPayloadFloat:
      return {PayloadType::float32, low};
    case nvtx::kPayloadExtended:
      return {PayloadType::opaque, extended_bytes(*event)};
    default:
      return {};
  }
}

// --- The four kinds of events; `find_label` gets the thread's memory ---
template <typename FindLabel>
int push(uint32_t domain, const EventAttributes* event, FindLabel find_label) {
  const DoorCall call;
  if (!call) return nvtx::kNoTracking;
  return call.thread->push(*call.recorder, find_label(*call.thread), domain, payload_of(event));
}

int pop(uint32_t domain) {
  const DoorCall call;
  return call ? call.thread->pop(*call.recorder, domain) : nvtx::kNoTracking;
}

template <typename FindLabel>
uint64_t start_span(const EventAttributes* event, FindLabel find_label) {
  const DoorCall call;
  if (!call) return 0;
  const uint64_t id = next_span_id(*call.recorder);
  call.recorder->span_begin(id, find_label(*call.thread), payload_of(event));
  return id;
}

void end_span(uint64_t id) {
  if (id == 0) return;  // started while nothing was recorded
  if (ThreadRecorder* recorder = this_thread()) recorder->span_end(id);
}

template <typename FindLabel>
void mark(const EventAttributes* event, FindLabel find_label) {
  if (const DoorCall call; call) call.recorder->mark(find_label(*call.thread), payload_of(event));
}

// --- How the calls name their events ---
auto by_event(uint32_t domain, const EventAttributes* event) {
  return [=](DoorThread& thread) { return label_of(thread, domain, event); };
}
auto by_text(const char* text) {
  return [=](DoorThread& thread) {
    return thread.label_of_text(text == nullptr ? kUnnamed : text, {0, 0, 0}, Source::nvtx);
  };
}
auto by_text(const wchar_t* text) {
  return [=](DoorThread& thread) {
    if (text == nullptr) return thread.label_of_text(kUnnamed, {0, 0, 0}, Source::nvtx);
    return label_of_wide(text, {0, 0, 0});
  };
}

// --- CORE ---
void mark_ex(const EventAttributes* event) { mark(event, by_event(0, event)); }
template <class Char>
void mark_text(const Char* text) {
  mark(nullptr, by_text(text));
}
uint64_t range_start_ex(const EventAttributes* event) { return start_span(event, by_event(0, event)); }
template <class Char>
uint64_t range_start_text(const Char* text) {
  return start_span(nullptr, by_text(text));
}
void range_end(uint64_t id) { end_span(id); }
int range_push_ex(const EventAttributes* event) { return push(0, event, by_event(0, event)); }
template <class Char>
int range_push_text(const Char* text) {
  return push(0, nullptr, by_text(text));
}
int range_pop() { return pop(0); }
template <class Char>
void name_category(uint32_t number, const Char* name) {
  name_nvtx_category(0, number, GivenText(name).view());
}
template <class Char>
void name_os_thread(uint32_t thread, const Char* name) {
  name_thread(thread, GivenText(name).view());
}

// --- CORE2 ---
void domain_mark_ex(DomainHandle* handle, const EventAttributes* event) {
  mark(event, by_event(domain_of(handle), event));
}
uint64_t domain_range_start_ex(DomainHandle* handle, const EventAttributes* event) {
  return start_span(event, by_event(domain_of(handle), event));
}
void domain_range_end(DomainHandle*, uint64_t id) { end_span(id); }
int domain_range_push_ex(DomainHandle* handle, const EventAttributes* event) {
  const uint32_t domain = domain_of(handle);
  return push(domain, event, by_event(domain, event));
}
int domain_range_pop(DomainHandle* handle) { return pop(domain_of(handle)); }

// Resources name things that no event refers to: accepted, not recorded.
nvtx::ResourceHandle* domain_resource_create(DomainHandle*, void*) {
  return reinterpret_cast<nvtx::ResourceHandle*>(kResource);
}
void domain_resource_destroy(nvtx::ResourceHandle*) {}

template <class Char>
void domain_name_category(DomainHandle* handle, uint32_t number, const Char* name) {
  name_nvtx_category(domain_of(handle), number, GivenText(name).view());
}
// The same text gives the same handle, in every domain: the event says which domain it belongs to.
template <class Char>
nvtx::StringHandle* domain_register_string(DomainHandle*, const Char* text) {
  return reinterpret_cast<nvtx::StringHandle*>(kStringTag | string_id(GivenText(text).view()));
}
template <class Char>
DomainHandle* create_domain(const Char* name) {
  return reinterpret_cast<DomainHandle*>(kDomainTag | domain_id(GivenText(name).view(), Source::nvtx));
}
void domain_destroy(DomainHandle*) {}  // another module may hold the same domain, and records refer to it
void initialize(const void*) {}

// --- Attaching ---
struct TableSlot {
  uint32_t number;
  nvtx::Function function;
};
template <typename F>
TableSlot slot(uint32_t number, F function) {
  return {number, reinterpret_cast<nvtx::Function>(function)};
}

template <size_t n>
bool attach(const nvtx::ExportedCallbacks& callbacks, nvtx::Module module, const TableSlot (&slots)[n]) {
  nvtx::Function** table = nullptr;
  unsigned int size = 0;
  if (callbacks.module_table(module, &table, &size) == 0 || table == nullptr) return false;
  for (const TableSlot& entry : slots) {
    if (entry.number < size && table[entry.number] != nullptr) *table[entry.number] = entry.function;
  }
  return true;
}

bool attach_core(const nvtx::ExportedCallbacks& callbacks) {
  const TableSlot slots[] = {
      slot(nvtx::kMarkEx, mark_ex),
      slot(nvtx::kMarkA, mark_text<char>),
      slot(nvtx::kMarkW, mark_text<wchar_t>),
      slot(nvtx::kRangeStartEx, range_start_ex),
      slot(nvtx::kRangeStartA, range_start_text<char>),
      slot(nvtx::kRangeStartW, range_start_text<wchar_t>),
      slot(nvtx::kRangeEnd, range_end),
      slot(nvtx::kRangePushEx, range_push_ex),
      slot(nvtx::kRangePushA, range_push_text<char>),
      slot(nvtx::kRangePushW, range_push_text<wchar_t>),
      slot(nvtx::kRangePop, range_pop),
      slot(nvtx::kNameCategoryA, name_category<char>),
      slot(nvtx::kNameCategoryW, name_category<wchar_t>),
      slot(nvtx::kNameOsThreadA, name_os_thread<char>),
      slot(nvtx::kNameOsThreadW, name_os_thread<wchar_t>),
  };
  return attach(callbacks, nvtx::Module::core, slots);
}

bool attach_core2(const nvtx::ExportedCallbacks& callbacks) {
  const TableSlot slots[] = {
      slot(nvtx::kDomainMarkEx, domain_mark_ex),
      slot(nvtx::kDomainRangeStartEx, domain_range_start_ex),
      slot(nvtx::kDomainRangeEnd, domain_range_end),
      slot(nvtx::kDomainRangePushEx, domain_range_push_ex),
      slot(nvtx::kDomainRangePop, domain_range_pop),
      slot(nvtx::kDomainResourceCreate, domain_resource_create),
      slot(nvtx::kDomainResourceDestroy, domain_resource_destroy),
      slot(nvtx::kDomainNameCategoryA, domain_name_category<char>),
      slot(nvtx::kDomainNameCategoryW, domain_name_category<wchar_t>),
      slot(nvtx::kDomainRegisterStringA, domain_register_string<char>),
      slot(nvtx::kDomainRegisterStringW, domain_register_string<wchar_t>),
      slot(nvtx::kDomainCreateA, create_domain<char>),
      slot(nvtx::kDomainCreateW, create_domain<wchar_t>),
      slot(nvtx::kDomainDestroy, domain_destroy),
      slot(nvtx::kInitialize, initialize),
  };
  return attach(callbacks, nvtx::Module::core2, slots);
}

}  // namespace

bool nvtx_door_is_open() { return nvtx_is_open.load(std::memory_order_relaxed); }

}  // namespace profkit::tracer

// Nonzero: attached. Calls that are already under way in other threads wait inside NVTX until this returns.
PROFKIT_EXPORT int InitializeInjectionNvtx2(profkit::tracer::nvtx::GetExportTable get_export_table) {
  using namespace profkit::tracer;
  if (get_export_table == nullptr) return 0;
  const auto* callbacks =
      static_cast<const nvtx::ExportedCallbacks*>(get_export_table(nvtx::kExportCallbacks));
  if (callbacks == nullptr || callbacks->struct_bytes < sizeof(*callbacks)) return 0;
  const bool has_core = attach_core(*callbacks);
  const bool has_core2 = attach_core2(*callbacks);
  if (!has_core && !has_core2) return 0;
  nvtx_is_open.store(true, std::memory_order_relaxed);
  return 1;
}
