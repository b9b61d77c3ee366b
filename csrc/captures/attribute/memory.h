// Memory per range, with nesting: the allocations and the tree of ranges in, bytes per range out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "captures/attribute/usage.h"

namespace profkit::captures {

// Borrowed columns of AllocationColumns, in any order of processes.
struct AllocationView {
  const int32_t* range;
  const int64_t* time_ns;
  const uint64_t* bytes;
  const int64_t* free_time_ns;
  const int32_t* free_range;
  const uint8_t* is_part;  // bytes without a call
  size_t count;

  // What is wrong with the columns, or nothing.
  const char* check(size_t ranges) const;
};

// One entry per range. Everything but `own_*` includes what the ranges inside allocated.
struct RangeMemory {
  explicit RangeMemory(size_t ranges);
  std::vector<int64_t> own_calls, own_bytes, calls, bytes;
  std::vector<int64_t> live_bytes;             // not yet freed when the range ended
  std::vector<int64_t> peak_bytes;             // most of `bytes` that was live at one time in the range
  std::vector<int64_t> freed_elsewhere_bytes;  // freed, but not in this range or the ranges inside it
  int64_t total_peak_bytes = 0;                // over all allocations, in ranges or not

  PROFKIT_MEMBERS(own_calls, own_bytes, calls, bytes, live_bytes, peak_bytes, freed_elsewhere_bytes,
                  total_peak_bytes)
};
RangeMemory attribute_memory(const RangeView& ranges, const AllocationView& allocations);

}  // namespace profkit::captures
