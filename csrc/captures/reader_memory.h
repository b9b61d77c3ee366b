// Pairs allocations with their releases: the memory events of a process's threads go in, rows come out.
#pragma once

#include <cstdint>
#include <vector>

#include "captures/reader.h"
#include "captures/reader_replay.h"

namespace profkit::captures {

// Appends the process's rows in order of time. `thread_rows[i]` is the row of threads[i]. Gives the number of
// releases whose allocation was not recorded.
uint64_t match_allocations(std::vector<ThreadStory>& threads, const std::vector<int32_t>& thread_rows,
                           AllocationColumns& rows);

}  // namespace profkit::captures
