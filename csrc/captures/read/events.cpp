// Decodes single events, and keeps the many columns of ranges in step.
#include "captures/read/events.h"

namespace profkit::captures {
namespace {

using tracer::EventKind;
using tracer::kTickBits;
using tracer::kTickMask;

// Words of each kind, the first included; a snapshot adds two for each range. 0: no such kind.
constexpr uint8_t kWordCounts[16] = {0, 1, 2, 1, 2, 3, 2, 2, 3, 2, 3, 3, 2, 1, 2, 3};

}  // namespace

uint32_t read_event(const EventBlock& block, uint32_t at, Event& event) {
  const auto first = load<uint64_t>(block.words + 8 * size_t{at});
  event.kind = static_cast<EventKind>(first >> 60);
  event.argument = static_cast<uint32_t>(first >> kTickBits) & tracer::kMaxArgument;
  event.low_ticks = first & kTickMask;
  event.more = block.words + 8 * (size_t{at} + 1);
  uint32_t count = kWordCounts[first >> 60];
  if (event.kind == EventKind::snapshot) count += 2 * event.argument;
  return count <= block.count - at ? count : 0;
}

uint64_t near_ticks(uint64_t written, uint64_t low) {
  // The low bits, taken as a signed distance from a full reading.
  const uint64_t ahead = (low - written) & kTickMask;
  if (ahead < (uint64_t{1} << (kTickBits - 1))) {
    return written + ahead < written ? written : written + ahead;
  }
  const uint64_t behind = (kTickMask + 1) - ahead;
  return written >= behind ? written - behind : 0;
}

bool first_ticks(const EventBlock& block, uint64_t& ticks) {
  if (block.count == 0) return false;
  Event event;
  if (read_event(block, 0, event) == 0) return false;
  if (event.kind == EventKind::payload || event.kind == EventKind::usage) return false;
  ticks = event.kind == EventKind::time ? event.word(1) : near_ticks(block.written_ticks, event.low_ticks);
  return true;
}

}  // namespace profkit::captures
