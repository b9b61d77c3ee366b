// Ends across threads.
#include "captures/read/resolve.h"

#include <algorithm>
#include <tuple>

namespace profkit::captures {
namespace {

constexpr auto kSpan = static_cast<uint8_t>(RangeKind::span);

bool is_earlier(const SpanEvent& a, const SpanEvent& b) {
  return std::tie(a.id, a.time_ns) < std::tie(b.id, b.time_ns);
}

void leave_open(RangeColumns& ranges, int32_t row, int64_t end_ns) {
  const auto at = static_cast<size_t>(row);
  ranges.end_ns[at] = std::max(ranges.start_ns[at], end_ns);
  ranges.is_open[at] = 1;
}

}  // namespace

void close_open_rows(const ProcessSummary& summary, int64_t end_ns, RangeColumns& ranges) {
  for (int32_t row : summary.open_rows) leave_open(ranges, row, end_ns);
}

void match_spans(ProcessSummary& summary, int64_t end_ns, RangeColumns& ranges) {
  auto& begins = summary.span_begins;
  auto& ends = summary.span_ends;
  std::stable_sort(begins.begin(), begins.end(), is_earlier);
  std::stable_sort(ends.begin(), ends.end(), is_earlier);
  size_t at = 0;
  for (const SpanEvent& begin : begins) {
    while (at < ends.size() && ends[at].id < begin.id) ++at, ++summary.anomalies.unmatched_span_ends;
    if (at == ends.size() || ends[at].id != begin.id) {
      leave_open(ranges, begin.row, end_ns);
      continue;
    }
    const auto row = static_cast<size_t>(begin.row);
    ranges.end_ns[row] = std::max(ranges.start_ns[row], ends[at].time_ns);
    ranges.end_thread[row] = ends[at].thread;
    ++at;
  }
  summary.anomalies.unmatched_span_ends += ends.size() - at;
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
