// Pairs allocations with their releases: the memory events of a process's threads go in, rows come out.
#pragma once

#include <cstdint>
#include <vector>

#include "captures/read/reader.h"
#include "captures/read/replay.h"

namespace profkit::captures {

struct MatchCounts {
  uint64_t frees_of_unknown = 0;  // releases whose allocation was not recorded
  uint64_t left_out = 0;          // allocations, or pieces of one, for which the table had no room
};

// Appends the process's rows in order of time, up to `max_rows` of all processes. `thread_rows[i]` is the row
// of threads[i].
MatchCounts match_allocations(std::vector<ThreadSummary>& threads, const std::vector<int32_t>& thread_rows,
                              size_t max_rows, AllocationColumns& rows);

}  // namespace profkit::captures
