// Time per range and per group of ranges: columns of a capture in, plain vectors out. Rows must be ordered as
// the reader leaves them: grouped by thread, by begin, a parent before its children.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "captures/members.h"

namespace profkit::captures {

// Borrowed columns of RangeColumns. `check` must pass before anything else is called.
struct RangeView {
  const uint8_t* kind;
  const uint8_t* is_open;
  const int32_t* thread;
  const int32_t* parent;
  const int64_t* start_ns;
  const int64_t* end_ns;
  size_t count;
  int32_t threads;  // how many there are

  bool in_tree(size_t row) const { return kind[row] == 0; }
  // What is wrong with the columns, or nullptr: a parent that does not precede its child would make every
  // pass below wrong, and a cycle of parents endless.
  const char* check() const;
};

// Own time: the duration without the direct children of kind range; 0 for spans and marks.
std::vector<int64_t> own_times(const RangeView& ranges);

// How many ranges and spans were recorded inside each range; marks are not counted.
struct CountsInside {
  std::vector<int64_t> direct, at_any_depth;
};
CountsInside counts_inside(const RangeView& ranges);

// One node per distinct way from the outermost range to a title, in order of appearance.
struct Paths {
  std::vector<int32_t> of_row;  // node; -1 where the title is -1
  std::vector<int32_t> parent;  // node above; -1 at the top
  std::vector<int32_t> title;
};
Paths find_paths(const RangeView& ranges, const int32_t* title);

// 1 where no range around this one belongs to the same group: what counts once when a range repeats inside
// itself. 0 where the group is -1.
std::vector<uint8_t> outermost_of_group(const RangeView& ranges, const int32_t* group, size_t groups);

// Sums over the rows of each group; rows of group -1 are left out.
struct GroupTimes {
  explicit GroupTimes(size_t groups);
  std::vector<int64_t> calls, span_calls, open_calls, inclusive_ns, exclusive_ns, min_ns, mean_ns, median_ns,
      max_ns;

  PROFKIT_MEMBERS(calls, span_calls, open_calls, inclusive_ns, exclusive_ns, min_ns, mean_ns, median_ns,
                  max_ns)
};
GroupTimes group_times(const RangeView& ranges, const int64_t* own_ns, const int32_t* group, size_t groups);

// Sum and maximum of the rows of each group that are chosen; 0 for a group without any.
std::vector<int64_t> sum_by_group(const int64_t* values, const uint8_t* is_chosen, const int32_t* group,
                                  size_t rows, size_t groups);
std::vector<int64_t> max_by_group(const int64_t* values, const int32_t* group, size_t rows, size_t groups);

}  // namespace profkit::captures
