// Where each range is drawn in a trace: rows of a capture in, a lane and a depth for each out, so that slices
// of one lane nest strictly whatever the capture holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace profkit::captures {

// Rows grouped by thread and in order of start, parents before children (reader.h).
struct LayoutInput {
  size_t count = 0;
  size_t threads = 0;
  const uint8_t* kind = nullptr;  // RangeKind
  const int32_t* thread = nullptr;
  const int64_t *start_ns = nullptr, *end_ns = nullptr;
  const int32_t* parent = nullptr;
};

struct TraceLayout {
  std::vector<int32_t> lane;   // 0: the thread itself; from 1 on: lanes for what would overlap there
  std::vector<int32_t> depth;  // number of slices open around it in its lane
  std::vector<int32_t> lanes_of_thread;  // lanes in addition to the thread itself
};

TraceLayout lay_out(const LayoutInput& input);

}  // namespace profkit::captures
