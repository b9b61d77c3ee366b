// Sums go up the tree once, from the last row to the first; peaks come from one sweep over allocations and
// frees in order of time.
#include "captures/attribute/memory.h"

#include <algorithm>
#include <numeric>

namespace profkit::captures {
namespace {

constexpr int64_t kNotFreed = -1;

size_t index(int32_t row) { return static_cast<size_t>(row); }

// Changes of live bytes that still have to be applied to a range and its ancestors: their sum, and the
// highest point reached.
struct Pending {
  int64_t sum = 0, highest = 0;

  void add(int64_t change) { append({change, std::max<int64_t>(0, change)}); }
  void append(const Pending& later) {
    highest = std::max(highest, sum + later.highest);
    sum += later.sum;
  }
};

struct StackedRange {
  int32_t row;
  int64_t live = 0;
  Pending pending{};
};

// The open ranges of one thread, as far as allocations show them. An allocation concerns all of them, a free
// those that were open when its memory was allocated, which is always a lower part of the stack. Changes stay
// where they were made and propagate down when a range closes or a change lower down must follow them; so an
// allocation costs one step however deep the stack is.
class Stack {
 public:
  Stack(std::vector<int32_t>& levels, std::vector<int64_t>& peaks) : levels_(levels), peaks_(peaks) {}

  void allocate(int32_t row, int64_t bytes, const int32_t* parent) {
    open(row, parent);
    ranges_.back().pending.add(bytes);
  }

  // Ranges that have ended but are still on the stack are lowered too, which cannot raise their peak.
  void release(int32_t row, int64_t bytes, const int32_t* parent) {
    while (row >= 0 && levels_[index(row)] < 0) row = parent[row];
    if (row < 0) return;
    const size_t level = static_cast<size_t>(levels_[index(row)]);
    for (size_t i = ranges_.size(); i-- > level + 1;) sink(i);
    ranges_[level].pending.add(-bytes);
  }

  void close_all() { close_down_to(0); }

 private:
  // Makes `row` the innermost range: what is open and does not enclose it must have ended.
  void open(int32_t row, const int32_t* parent) {
    way_.clear();
    for (; row >= 0 && levels_[index(row)] < 0; row = parent[row]) way_.push_back(row);
    close_down_to(row < 0 ? 0 : static_cast<size_t>(levels_[index(row)]) + 1);
    for (size_t i = way_.size(); i-- > 0;) {
      levels_[index(way_[i])] = static_cast<int32_t>(ranges_.size());
      ranges_.push_back({way_[i]});
    }
  }

  void close_down_to(size_t size) {
    while (ranges_.size() > size) {
      sink(ranges_.size() - 1);
      levels_[index(ranges_.back().row)] = -1;
      ranges_.pop_back();
    }
  }

  void sink(size_t level) {
    StackedRange& range = ranges_[level];
    int64_t& peak = peaks_[index(range.row)];
    peak = std::max(peak, range.live + range.pending.highest);
    range.live += range.pending.sum;
    if (level > 0) ranges_[level - 1].pending.append(range.pending);
    range.pending = {};
  }

  std::vector<StackedRange> ranges_;
  std::vector<int32_t> way_;
  std::vector<int32_t>& levels_;  // per row of ranges: its place in a stack, or -1
  std::vector<int64_t>& peaks_;
};

std::vector<uint32_t> order_by(const int64_t* time_ns, std::vector<uint32_t> rows) {
  const auto earlier = [time_ns](uint32_t a, uint32_t b) { return time_ns[a] < time_ns[b]; };
  if (!std::is_sorted(rows.begin(), rows.end(), earlier)) std::stable_sort(rows.begin(), rows.end(), earlier);
  return rows;
}

void find_peaks(const RangeView& ranges, const AllocationView& allocations, RangeMemory& result) {
  std::vector<uint32_t> all(allocations.count);
  std::iota(all.begin(), all.end(), 0u);
  const std::vector<uint32_t> made = order_by(allocations.time_ns, std::move(all));
  std::vector<uint32_t> freed;
  for (const uint32_t row : made) {
    if (allocations.free_time_ns[row] != kNotFreed) freed.push_back(row);
  }
  freed = order_by(allocations.free_time_ns, std::move(freed));

  std::vector<int32_t> levels(ranges.count, -1);
  std::vector<Stack> stacks(index(ranges.threads), Stack(levels, result.peak_bytes));
  std::vector<uint8_t> is_made(allocations.count, 0);
  int64_t live = 0;
  size_t next_freed = 0;
  for (const uint32_t row : made) {
    // Frees at the same nanosecond come first (a realloc is a free and an allocation), except of memory that
    // is not yet allocated.
    for (; next_freed < freed.size(); ++next_freed) {
      const uint32_t old = freed[next_freed];
      if (allocations.free_time_ns[old] > allocations.time_ns[row] || !is_made[old]) break;
      const auto bytes = static_cast<int64_t>(allocations.bytes[old]);
      const int32_t range = allocations.range[old];
      live -= bytes;
      if (range >= 0) stacks[index(ranges.thread[range])].release(range, bytes, ranges.parent);
    }
    const auto bytes = static_cast<int64_t>(allocations.bytes[row]);
    const int32_t range = allocations.range[row];
    is_made[row] = 1;
    live += bytes;
    result.total_peak_bytes = std::max(result.total_peak_bytes, live);
    if (range >= 0) stacks[index(ranges.thread[range])].allocate(range, bytes, ranges.parent);
  }
  for (Stack& stack : stacks) stack.close_all();
}

// The innermost range around both; -1 when there is none.
int32_t common_ancestor(const RangeView& ranges, int32_t a, int32_t b) {
  // A parent's row is lower, so the higher of the two cannot be an ancestor of the other.
  while (a != b && a >= 0 && b >= 0) {
    if (a > b) {
      a = ranges.parent[a];
    } else {
      b = ranges.parent[b];
    }
  }
  return a == b ? a : -1;
}

void add_up_the_tree(const RangeView& ranges, std::vector<int64_t>& values) {
  for (size_t row = ranges.count; row-- > 0;) {
    if (ranges.parent[row] >= 0) values[index(ranges.parent[row])] += values[row];
  }
}

}  // namespace

const char* AllocationView::check(size_t ranges) const {
  const auto limit = static_cast<int64_t>(ranges);
  for (size_t row = 0; row < count; ++row) {
    if (range[row] < -1 || range[row] >= limit || free_range[row] < -1 || free_range[row] >= limit) {
      return "an allocation refers to a range that does not exist";
    }
  }
  return nullptr;
}

RangeMemory::RangeMemory(size_t ranges) {
  for (auto* column : {&own_calls, &own_bytes, &live_bytes, &peak_bytes, &freed_elsewhere_bytes}) {
    column->assign(ranges, 0);
  }
}

RangeMemory attribute_memory(const RangeView& ranges, const AllocationView& allocations) {
  RangeMemory result(ranges.count);
  for (size_t row = 0; row < allocations.count; ++row) {
    const int32_t range = allocations.range[row];
    if (range < 0) continue;
    const auto bytes = static_cast<int64_t>(allocations.bytes[row]);
    const int64_t free_time = allocations.free_time_ns[row];
    result.own_calls[index(range)] += allocations.is_part[row] == 0 ? 1 : 0;
    result.own_bytes[index(range)] += bytes;
    result.live_bytes[index(range)] += bytes;
    if (free_time == kNotFreed) continue;
    // Live at the end of this range and of those around it, up to the first that ended after the free.
    int32_t holder = range;
    while (holder >= 0 && ranges.end_ns[holder] < free_time) holder = ranges.parent[holder];
    if (holder >= 0) result.live_bytes[index(holder)] -= bytes;
    result.freed_elsewhere_bytes[index(range)] += bytes;
    const int32_t around_both = common_ancestor(ranges, range, allocations.free_range[row]);
    if (around_both >= 0) result.freed_elsewhere_bytes[index(around_both)] -= bytes;
  }
  result.calls = result.own_calls;
  result.bytes = result.own_bytes;
  add_up_the_tree(ranges, result.calls);
  add_up_the_tree(ranges, result.bytes);
  add_up_the_tree(ranges, result.live_bytes);
  add_up_the_tree(ranges, result.freed_elsewhere_bytes);
  find_peaks(ranges, allocations, result);
  return result;
}

}  // namespace profkit::captures
