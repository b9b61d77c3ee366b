// ITT names overlapped tasks and frames by the program's own ids; this finds the recorder's id of the open
// one.
#pragma once

#include <cstdint>

#include "tracer/doors/itt_abi.h"

namespace profkit::tracer {

struct IttSpanKey {
  uint64_t owner;  // what the id belongs to: domain, event and thread...
  itt::Id id;
};

// False when 4096 are open already: the span then never ends.
bool remember_open_span(const IttSpanKey& key, uint64_t span);
// The span, which is forgotten; 0 when none is open under this key.
uint64_t take_open_span(const IttSpanKey& key);

}  // namespace profkit::tracer
