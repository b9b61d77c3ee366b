// Ends across threads.
#include "captures/reader_resolve.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace profkit::captures {
namespace {

constexpr auto kRange = static_cast<uint8_t>(RangeKind::range);
constexpr auto kSpan = static_cast<uint8_t>(RangeKind::span);
constexpr auto kMark = static_cast<uint8_t>(RangeKind::mark);

// A begin's clock is known by 44 bits: at 3 GHz they repeat after 1.6 hours.
constexpr uint64_t kMaxTurns = 16;
// Rows that may begin in the same nanosecond before a search is given up.
constexpr int kMaxSameTime = 64;

bool is_earlier(const SpanEvent& a, const SpanEvent& b) {
  return std::tie(a.id, a.time_ns) < std::tie(b.id, b.time_ns);
}

void leave_open(RangeColumns& ranges, int32_t row, int64_t end_ns) {
  const auto at = static_cast<size_t>(row);
  ranges.end_ns[at] = std::max(ranges.start_ns[at], end_ns);
  ranges.is_open[at] = 1;
}

// The row of this thread that began at this time with these low bits of the clock; -1 none.
int32_t find_row(const ReplayContext& context, size_t process_first, const ThreadStory& thread,
                 int64_t start_ns, uint32_t ticks_low) {
  const RangeColumns& ranges = context.ranges;
  const auto first = ranges.start_ns.begin() + thread.first_row,
             last = ranges.start_ns.begin() + thread.last_row;
  int32_t found = -1;
  int tried = 0;
  for (auto at = std::lower_bound(first, last, start_ns); at != last && *at == start_ns; ++at) {
    const auto row = static_cast<size_t>(at - ranges.start_ns.begin());
    if (++tried > kMaxSameTime) break;
    if (ranges.kind[row] == kMark || context.story.begin_ticks_low[row - process_first] != ticks_low)
      continue;
    // Closed out of order before, it is a span already; a true span may share the tick, but a range goes
    // first.
    if (found < 0 || ranges.kind[row] == kRange) found = static_cast<int32_t>(row);
  }
  return found;
}

int32_t find_opened(const ReplayContext& context, size_t process_first, const ThreadStory& thread,
                    const ForeignEnd& end) {
  size_t cursor = 0;
  uint64_t ticks = end.ticks - ((end.ticks - end.begin_ticks) & tracer::kTickMask);
  for (uint64_t turn = 0; turn < kMaxTurns && ticks <= end.ticks; ++turn, ticks -= tracer::kTickMask + 1) {
    const int64_t ns = std::max<int64_t>(context.clock.monotonic_ns(ticks, cursor) - context.origin_ns, 0);
    const int32_t row = find_row(context, process_first, thread, ns, static_cast<uint32_t>(ticks));
    if (row >= 0) return row;
  }
  return -1;
}

}  // namespace

void close_open_rows(const ProcessStory& story, int64_t end_ns, RangeColumns& ranges) {
  for (int32_t row : story.open_rows) leave_open(ranges, row, end_ns);
}

void match_spans(ProcessStory& story, int64_t end_ns, RangeColumns& ranges) {
  auto& begins = story.span_begins;
  auto& ends = story.span_ends;
  std::stable_sort(begins.begin(), begins.end(), is_earlier);
  std::stable_sort(ends.begin(), ends.end(), is_earlier);
  size_t at = 0;
  for (const SpanEvent& begin : begins) {
    while (at < ends.size() && ends[at].id < begin.id) ++at, ++story.odd.unmatched_span_ends;
    if (at == ends.size() || ends[at].id != begin.id) {
      leave_open(ranges, begin.row, end_ns);
      continue;
    }
    const auto row = static_cast<size_t>(begin.row);
    ranges.end_ns[row] = std::max(ranges.start_ns[row], ends[at].time_ns);
    ranges.end_thread[row] = ends[at].thread;
    ++at;
  }
  story.odd.unmatched_span_ends += ends.size() - at;
}

void apply_foreign_ends(const ReplayContext& context, size_t first_row) {
  ProcessStory& story = context.story;
  if (story.foreign_ends.empty()) return;
  std::unordered_map<uint32_t, const ThreadStory*> openers;
  for (const ThreadStory& thread : story.threads) openers[thread.index & 0xFFFFF] = &thread;
  RangeColumns& ranges = context.ranges;
  for (const ForeignEnd& end : story.foreign_ends) {
    const auto opener = openers.find(end.opener);
    const int32_t row = opener == openers.end() ? -1 : find_opened(context, first_row, *opener->second, end);
    if (row < 0) continue;  // its begin was not recorded
    const auto at = static_cast<size_t>(row);
    size_t cursor = 0;
    const int64_t end_ns = context.clock.monotonic_ns(end.ticks, cursor) - context.origin_ns;
    ranges.kind[at] = kSpan;
    ranges.end_ns[at] = std::max(ranges.start_ns[at], end_ns);
    ranges.end_thread[at] = end.thread;
    ranges.is_open[at] = 0;
    story.has_moved_spans = true;
  }
}

void lift_children_of_spans(size_t first_row, size_t first_allocation, RangeColumns& ranges,
                            AllocationColumns& allocations) {
  const auto lifted = [&](int32_t row) {
    // Rows before this one are done, so one step reaches a range.
    return row >= 0 && ranges.kind[static_cast<size_t>(row)] == kSpan
               ? ranges.parent[static_cast<size_t>(row)]
               : row;
  };
  for (size_t row = first_row; row < ranges.kind.size(); ++row) {
    const int32_t parent = lifted(ranges.parent[row]);
    ranges.parent[row] = parent;
    ranges.depth[row] = parent < 0 ? 0 : ranges.depth[static_cast<size_t>(parent)] + 1;
  }
  for (size_t row = first_allocation; row < allocations.time_ns.size(); ++row) {
    allocations.range[row] = lifted(allocations.range[row]);
    allocations.free_range[row] = lifted(allocations.free_range[row]);
  }
}

}  // namespace profkit::captures
