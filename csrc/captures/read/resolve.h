// What needs the whole process: ends of spans and of ranges left open, and the tree without spans. Works on
// the process's rows after all its threads are replayed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "captures/read/reader.h"
#include "captures/read/replay.h"

namespace profkit::captures {

void close_open_rows(const ProcessSummary& summary, int64_t end_ns, RangeColumns& ranges);

// Pairs span begins and ends by id; a begin alone stays open until `end_ns`.
void match_spans(ProcessSummary& summary, int64_t end_ns, RangeColumns& ranges);

// Parents, depths and allocations refer to ranges of the tree only: those of a range that turned out to be a
// span move to the nearest range around it.
void lift_children_of_spans(size_t first_row, size_t first_allocation, RangeColumns& ranges,
                            AllocationColumns& allocations);

}  // namespace profkit::captures
