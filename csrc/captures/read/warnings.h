// What was damaged, lost or unexpected in a capture, as sentences for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "captures/read/blocks.h"
#include "captures/read/replay.h"

namespace profkit::captures {

struct WarningFacts {
  uint64_t unknown_blocks = 0, malformed_blocks = 0, processes_without_clock = 0;
  size_t max_rows = kMaxRows;
  Anomalies anomalies;
};

std::vector<std::string> warnings_of(const BlockList& found, const WarningFacts& facts);

}  // namespace profkit::captures
