// The C function table (api.h) over the recorder.
#include "tracer/core/api.h"

#include <cstdio>

#include "tracer/core/demangling.h"
#include "tracer/core/export.h"
#include "tracer/core/recorder.h"
#include "tracer/core/session.h"
#include "tracer/core/threads.h"
#include "tracer/cupti/door.h"
#include "tracer/cupti/library.h"
#include "tracer/cupti/queue.h"

namespace profkit::tracer {
namespace {

// Numbers for categories that have only a name; apart from those that NVTX programs choose.
constexpr uint32_t kNamedCategory = 0x80000000;

Payload payload_of(uint32_t type, uint64_t bits) { return {static_cast<PayloadType>(type), bits}; }

uint32_t label(const char* name, size_t name_bytes, const char* category, size_t category_bytes) {
  LabelKey key;
  key.string = string_id({name, name_bytes});
  if (category != nullptr) {
    const std::string_view text{category, category_bytes};
    key.category = category_id(0, kNamedCategory | string_id(text), text);
  }
  return label_id(key);
}

uint64_t begin(uint32_t label) {
  ThreadRecorder* const recorder = this_thread();
  if (recorder == nullptr) return 0;
  const uint64_t ticks = recorder->begin(label, kNoGroup);
  return ticks == 0 ? 0 : recorder->token_of(ticks);
}

uint64_t begin_with_payload(uint32_t label, uint32_t payload_type, uint64_t payload_bits) {
  ThreadRecorder* const recorder = this_thread();
  if (recorder == nullptr) return 0;
  const uint64_t ticks = recorder->begin(label, kNoGroup, payload_of(payload_type, payload_bits));
  return ticks == 0 ? 0 : recorder->token_of(ticks);
}

void end(uint64_t token) {
  if (token == 0) return;
  if (ThreadRecorder* const recorder = this_thread()) recorder->end_token(token);
}

uint64_t span_begin(uint32_t label, uint32_t payload_type, uint64_t payload_bits) {
  ThreadRecorder* const recorder = this_thread();
  if (recorder == nullptr) return 0;
  const uint64_t id = next_span_id(*recorder);
  recorder->span_begin(id, label, payload_of(payload_type, payload_bits));
  return id;
}

void span_end(uint64_t id) {
  if (id == 0) return;
  if (ThreadRecorder* const recorder = this_thread()) recorder->span_end(id);
}

void mark(uint32_t label, uint32_t payload_type, uint64_t payload_bits) {
  ThreadRecorder* const recorder = this_thread();
  if (recorder != nullptr) recorder->mark(label, payload_of(payload_type, payload_bits));
}

const char* start_with_options(const char* path, const char* text) {
  static char why[128];
  Options wanted;
  if (!parse_options(text, &wanted, why)) return why;
  return start(path, wanted);
}

uint64_t dropped() { return losses.records() + device_counts.dropped(); }

void examine(const char* wheels, profkit_cupti_findings* result) {
  const RecordingPause quiet;
  examine_cupti(wheels, *result);
}

void tell_cupti_status(profkit_cupti_findings* result) {
  CuptiStatus status;
  get_cupti_status(status);
  result->version = status.version;
  result->is_usable = status.state == CuptiState::open ? 1 : 0;
  std::snprintf(result->library, sizeof(result->library), "%s", status.library);
  std::snprintf(result->reason, sizeof(result->reason), "%s", status.message);
}

static_assert(sizeof(recording) == sizeof(uint32_t));

const profkit_tracer_api table = {
    PROFKIT_TRACER_API_VERSION,
    reinterpret_cast<const uint32_t*>(&recording),
    label,
    begin,
    begin_with_payload,
    end,
    span_begin,
    span_end,
    mark,
    start_with_options,
    stop,
    flush,
    capture_path,
    open_door_bits,
    dropped,
    examine,
    tell_cupti_status,
    demangle,
};

}  // namespace
}  // namespace profkit::tracer

PROFKIT_EXPORT const profkit_tracer_api* profkit_tracer(uint32_t version) {
  return version == PROFKIT_TRACER_API_VERSION ? &profkit::tracer::table : nullptr;
}
