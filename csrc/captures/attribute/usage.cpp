// Passes over the ranges of a capture, each linear in their number.
#include "captures/attribute/usage.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace profkit::captures {
namespace {

constexpr uint8_t kSpan = 1;
constexpr uint8_t kMark = 2;
constexpr int64_t kNever = std::numeric_limits<int64_t>::min();

size_t index(int32_t row) { return static_cast<size_t>(row); }

// The median duration of every group: durations are distributed into one array, a segment per group.
void fill_medians(const RangeView& ranges, const int32_t* group, GroupTimes& result) {
  const size_t groups = result.calls.size();
  std::vector<size_t> next(groups + 1, 0);
  for (size_t i = 0; i < groups; ++i) next[i + 1] = next[i] + static_cast<size_t>(result.calls[i]);
  std::vector<int64_t> durations(next[groups]);
  for (size_t row = 0; row < ranges.count; ++row) {
    if (group[row] < 0) continue;
    durations[next[index(group[row])]++] = ranges.end_ns[row] - ranges.start_ns[row];
  }
  // `next` of a group has moved to its end.
  for (size_t i = 0; i < groups; ++i) {
    const auto calls = static_cast<std::ptrdiff_t>(result.calls[i]);
    if (calls == 0) continue;
    const auto first = durations.begin() + static_cast<std::ptrdiff_t>(next[i]) - calls;
    const auto middle = first + (calls - 1) / 2;
    std::nth_element(first, middle, first + calls);
    result.median_ns[i] = *middle;
  }
}

}  // namespace

const char* RangeView::check() const {
  for (size_t row = 0; row < count; ++row) {
    if (thread[row] < 0 || thread[row] >= threads) return "a range has no thread";
    if (parent[row] < -1 || parent[row] >= static_cast<int64_t>(row)) {
      return "the parent of a range does not precede it";
    }
    if (parent[row] >= 0 && !in_tree(index(parent[row]))) return "a range has a span or a mark as its parent";
  }
  return nullptr;
}

std::vector<int64_t> own_times(const RangeView& ranges) {
  std::vector<int64_t> own(ranges.count, 0);
  for (size_t row = 0; row < ranges.count; ++row) {
    if (!ranges.in_tree(row)) continue;
    const int64_t duration = ranges.end_ns[row] - ranges.start_ns[row];
    own[row] += duration;
    if (ranges.parent[row] >= 0) own[index(ranges.parent[row])] -= duration;
  }
  return own;
}

CountsInside counts_inside(const RangeView& ranges) {
  CountsInside result{std::vector<int64_t>(ranges.count, 0), std::vector<int64_t>(ranges.count, 0)};
  // Backwards, children come before their parent and are complete when they are added.
  for (size_t row = ranges.count; row-- > 0;) {
    if (ranges.parent[row] < 0 || ranges.kind[row] == kMark) continue;
    result.direct[index(ranges.parent[row])] += 1;
    result.at_any_depth[index(ranges.parent[row])] += 1 + result.at_any_depth[row];
  }
  return result;
}

Paths find_paths(const RangeView& ranges, const int32_t* title) {
  Paths paths;
  paths.of_row.assign(ranges.count, -1);
  std::unordered_map<uint64_t, int32_t> nodes;
  for (size_t row = 0; row < ranges.count; ++row) {
    if (title[row] < 0) continue;
    const int32_t above = ranges.parent[row] < 0 ? -1 : paths.of_row[index(ranges.parent[row])];
    const uint64_t key =
        (uint64_t{static_cast<uint32_t>(above)} << 32) | uint64_t{static_cast<uint32_t>(title[row])};
    const auto [found, is_new] = nodes.try_emplace(key, static_cast<int32_t>(paths.title.size()));
    if (is_new) {
      paths.parent.push_back(above);
      paths.title.push_back(title[row]);
    }
    paths.of_row[row] = found->second;
  }
  return paths;
}

std::vector<uint8_t> outermost_of_group(const RangeView& ranges, const int32_t* group, size_t groups) {
  std::vector<uint8_t> result(ranges.count, 0);
  std::vector<int32_t> open_in_group(groups, 0);
  std::vector<int32_t> stack;
  for (size_t row = 0; row < ranges.count; ++row) {
    if (ranges.kind[row] == kMark) continue;
    while (!stack.empty() && stack.back() != ranges.parent[row]) {
      if (group[stack.back()] >= 0) open_in_group[index(group[stack.back()])] -= 1;
      stack.pop_back();
    }
    if (group[row] >= 0) result[row] = open_in_group[index(group[row])] == 0;
    if (!ranges.in_tree(row)) continue;
    stack.push_back(static_cast<int32_t>(row));
    if (group[row] >= 0) open_in_group[index(group[row])] += 1;
  }
  return result;
}

GroupTimes::GroupTimes(size_t groups) {
  visit([groups](std::string_view, auto& column) { column.assign(groups, 0); });
  min_ns.assign(groups, std::numeric_limits<int64_t>::max());
}

GroupTimes group_times(const RangeView& ranges, const int64_t* own_ns, const int32_t* group, size_t groups) {
  GroupTimes result(groups);
  // Up to when a group's time is already counted on the thread it was last seen on: rows come in order of
  // begin, so the union of intervals needs no sorting.
  std::vector<int64_t> counted_until(groups, kNever);
  std::vector<int32_t> last_thread(groups, -1);
  for (size_t row = 0; row < ranges.count; ++row) {
    if (group[row] < 0) continue;
    const size_t g = index(group[row]);
    const int64_t start = ranges.start_ns[row], end = ranges.end_ns[row];
    if (last_thread[g] != ranges.thread[row]) {
      last_thread[g] = ranges.thread[row];
      counted_until[g] = kNever;
    }
    result.inclusive_ns[g] += std::max<int64_t>(0, end - std::max(start, counted_until[g]));
    counted_until[g] = std::max(counted_until[g], end);
    result.calls[g] += 1;
    result.span_calls[g] += ranges.kind[row] == kSpan;
    result.open_calls[g] += ranges.is_open[row] != 0;
    result.exclusive_ns[g] += own_ns[row];
    result.mean_ns[g] += end - start;
    result.min_ns[g] = std::min(result.min_ns[g], end - start);
    result.max_ns[g] = std::max(result.max_ns[g], end - start);
  }
  for (size_t g = 0; g < groups; ++g) result.mean_ns[g] /= std::max<int64_t>(1, result.calls[g]);
  fill_medians(ranges, group, result);
  return result;
}

std::vector<int64_t> sum_by_group(const int64_t* values, const uint8_t* is_chosen, const int32_t* group,
                                  size_t rows, size_t groups) {
  std::vector<int64_t> sums(groups, 0);
  for (size_t row = 0; row < rows; ++row) {
    if (group[row] >= 0 && is_chosen[row]) sums[index(group[row])] += values[row];
  }
  return sums;
}

std::vector<int64_t> max_by_group(const int64_t* values, const int32_t* group, size_t rows, size_t groups) {
  std::vector<int64_t> largest(groups, 0);
  for (size_t row = 0; row < rows; ++row) {
    if (group[row] >= 0) largest[index(group[row])] = std::max(largest[index(group[row])], values[row]);
  }
  return largest;
}

}  // namespace profkit::captures
