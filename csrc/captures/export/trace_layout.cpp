// Lanes by first fit: ranges of the tree stay on their thread, spans take the lowest lane that is free.
#include "captures/export/trace_layout.h"

#include <functional>
#include <queue>
#include <utility>

#include "captures/read/reader.h"

namespace profkit::captures {
namespace {

// The additional lanes of one thread. Slices of a lane are disjoint: that one span encloses another means
// nothing.
class Lanes {
 public:
  int32_t take(int64_t start, int64_t end) {
    while (!busy_.empty() && busy_.top().first <= start) {
      free_.push(busy_.top().second);
      busy_.pop();
    }
    int32_t lane;
    if (free_.empty()) {
      lane = ++count_;
    } else {
      lane = free_.top();
      free_.pop();
    }
    busy_.emplace(end, lane);
    return lane;
  }

  int32_t count() const { return count_; }

 private:
  template <class T>
  using Smallest = std::priority_queue<T, std::vector<T>, std::greater<T>>;
  Smallest<std::pair<int64_t, int32_t>> busy_;  // end, lane
  Smallest<int32_t> free_;
  int32_t count_ = 0;
};

class ThreadLayout {
 public:
  explicit ThreadLayout(const LayoutInput& input, TraceLayout& layout) : in_(input), out_(layout) {}

  // Lays out rows [first, last), all of one thread.
  void run(size_t first, size_t last) {
    Lanes lanes;
    open_.clear();
    for (size_t row = first; row < last; ++row) {
      const auto kind = static_cast<RangeKind>(in_.kind[row]);
      if (kind == RangeKind::mark) {
        leave_ended(row);
        out_.depth[row] = static_cast<int32_t>(open_.size());
      } else if (kind == RangeKind::range && nests(row)) {
        out_.depth[row] = static_cast<int32_t>(open_.size());
        open_.push_back(row);
      } else {
        out_.lane[row] = lanes.take(in_.start_ns[row], in_.end_ns[row]);
      }
    }
    if (first < last) out_.lanes_of_thread[static_cast<size_t>(in_.thread[first])] += lanes.count();
  }

 private:
  // Takes what ended from the stack, but not the row's parent: of equal times the tree knows the order.
  void leave_ended(size_t row) {
    while (!open_.empty() && in_.end_ns[open_.back()] <= in_.start_ns[row] &&
           static_cast<int64_t>(open_.back()) != in_.parent[row]) {
      open_.pop_back();
    }
  }

  bool nests(size_t row) {
    leave_ended(row);
    return open_.empty() ||
           (in_.end_ns[row] <= in_.end_ns[open_.back()] && in_.start_ns[row] >= in_.start_ns[open_.back()]);
  }

  const LayoutInput& in_;
  TraceLayout& out_;
  std::vector<size_t> open_;
};

}  // namespace

TraceLayout lay_out(const LayoutInput& input) {
  TraceLayout layout;
  layout.lane.assign(input.count, 0);
  layout.depth.assign(input.count, 0);
  layout.lanes_of_thread.assign(input.threads, 0);
  ThreadLayout one(input, layout);
  for (size_t first = 0; first < input.count;) {
    size_t last = first + 1;
    while (last < input.count && input.thread[last] == input.thread[first]) ++last;
    one.run(first, last);
    first = last;
  }
  return layout;
}

}  // namespace profkit::captures
