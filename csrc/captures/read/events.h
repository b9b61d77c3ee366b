// One event of a thread's stream: words in, kind, argument and clock bits out; and the columns of ranges as a
// whole.
#pragma once

#include <cstdint>

#include "captures/read/blocks.h"
#include "captures/read/replay.h"

namespace profkit::captures {

struct Event {
  tracer::EventKind kind;
  uint32_t argument;
  uint64_t low_ticks;
  const uint8_t* more;  // words after the first
  uint64_t word(size_t i) const { return load<uint64_t>(more + 8 * (i - 1)); }
};

// The words of the event at `at`; 0 when it does not fit into the block or is of no known kind.
uint32_t read_event(const EventBlock& block, uint32_t at, Event& event);

// The reading nearest to a full one with these low bits.
uint64_t near_ticks(uint64_t written, uint64_t low);

}  // namespace profkit::captures
