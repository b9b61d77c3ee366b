// One sweep over the begins and ends of each step's spans.
#include "captures/attribute/step_shares.h"

#include <algorithm>
#include <utility>

namespace profkit::captures {
namespace {

constexpr int8_t kRuntime = 1;
constexpr int8_t kLayer = 2;
constexpr int8_t kOperator = 3;
constexpr int8_t kPrimitive = 4;

bool is_operator(int8_t level) { return level == kOperator || level == kPrimitive; }

// A span cut to a step.
struct Piece {
  int64_t start_ns;
  int64_t end_ns;
  size_t row;
  size_t thread;
  int8_t level;

  // What begins at the same time is inner when it ends earlier, or is of a deeper level.
  bool begins_before(const Piece& other) const {
    if (start_ns != other.start_ns) return start_ns < other.start_ns;
    if (end_ns != other.end_ns) return end_ns > other.end_ns;
    return level != other.level ? level < other.level : row < other.row;
  }
};

// What is open on one thread, by number of the piece, the last begun at the back.
struct OpenSpans {
  std::vector<size_t> operators, others;
};

class StepSweep {
 public:
  StepSweep(std::vector<Piece> pieces, size_t threads, size_t step, StepShares& shares)
      : pieces_(std::move(pieces)),
        has_ended_(pieces_.size(), 0),
        open_(threads),
        step_(step),
        shares_(shares) {
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return a.begins_before(b); });
  }

  void run(int64_t start_ns, int64_t end_ns) {
    std::vector<size_t> by_end(pieces_.size());
    for (size_t i = 0; i < by_end.size(); ++i) by_end[i] = i;
    std::sort(by_end.begin(), by_end.end(),
              [this](size_t a, size_t b) { return pieces_[a].end_ns < pieces_[b].end_ns; });
    int64_t now = start_ns;
    size_t begun = 0;
    for (const size_t ending : by_end) {
      const int64_t end = pieces_[ending].end_ns;
      for (; begun < pieces_.size() && pieces_[begun].start_ns < end; ++begun) {
        assign(pieces_[begun].start_ns - now);
        now = pieces_[begun].start_ns;
        begin(begun);
      }
      assign(end - now);
      now = end;
      has_ended_[ending] = 1;
      drop_ended(pieces_[ending]);
    }
    assign(end_ns - now);
  }

 private:
  void begin(size_t number) {
    const Piece& piece = pieces_[number];
    OpenSpans& open = open_[piece.thread];
    if (is_operator(piece.level)) {
      if (open.operators.empty()) running_.push_back(piece.thread);
      open.operators.push_back(number);
    } else {
      count(open, -1);
      open.others.push_back(number);
      count(open, 1);
    }
  }

  // Spans that do not nest end below others that are still open, and are taken off with these.
  void drop_ended(const Piece& piece) {
    OpenSpans& open = open_[piece.thread];
    const auto drop = [this](std::vector<size_t>& numbers) {
      while (!numbers.empty() && has_ended_[numbers.back()]) numbers.pop_back();
    };
    if (is_operator(piece.level)) {
      drop(open.operators);
      if (open.operators.empty()) running_.erase(std::find(running_.begin(), running_.end(), piece.thread));
    } else {
      count(open, -1);
      drop(open.others);
      count(open, 1);
    }
  }

  // Threads whose innermost span, operators aside, is the framework's own code or a layer's.
  void count(const OpenSpans& open, int64_t by) {
    if (open.others.empty()) return;
    (pieces_[open.others.back()].level == kRuntime ? in_runtime_ : in_layer_) += by;
  }

  void assign(int64_t duration_ns) {
    if (duration_ns == 0) return;
    if (running_.empty()) {
      auto& remainder = in_runtime_ ? shares_.runtime_ns : in_layer_ ? shares_.layer_ns : shares_.empty_ns;
      remainder[step_] += duration_ns;
      return;
    }
    const size_t threads = running_.size();
    const auto whole = duration_ns / static_cast<int64_t>(threads);
    const auto left = static_cast<size_t>(duration_ns % static_cast<int64_t>(threads));
    for (size_t i = 0; i < threads; ++i) {
      // Nanoseconds that cannot be split go to each in turn.
      const bool gets_one = (i + threads - next_extra_ % threads) % threads < left;
      const Piece& piece = pieces_[open_[running_[i]].operators.back()];
      shares_.wall_ns[piece.row] += whole + (gets_one ? 1 : 0);
    }
    next_extra_ += left;
  }

  std::vector<Piece> pieces_;
  std::vector<uint8_t> has_ended_;
  std::vector<OpenSpans> open_;  // per thread
  std::vector<size_t> running_;  // threads with an open operator
  int64_t in_runtime_ = 0, in_layer_ = 0;
  size_t next_extra_ = 0;
  size_t step_;
  StepShares& shares_;
};

}  // namespace

const char* NetworkSpanView::check(size_t steps) const {
  for (size_t row = 0; row < count; ++row) {
    if (thread[row] < 0 || thread[row] >= threads) return "a span has no thread";
    if (step[row] < -1 || step[row] >= static_cast<int64_t>(steps))
      return "a span has a step that is not there";
  }
  return nullptr;
}

const char* StepView::check() const {
  for (size_t step = 0; step < count; ++step) {
    if (end_ns[step] < start_ns[step]) return "a step ends before it begins";
    if (step && start_ns[step] < end_ns[step - 1]) return "a step begins before the one before it ends";
  }
  return nullptr;
}

StepShares share_steps(const NetworkSpanView& spans, const StepView& steps) {
  StepShares shares{std::vector<int64_t>(spans.count, 0), std::vector<int64_t>(steps.count, 0),
                    std::vector<int64_t>(steps.count, 0), std::vector<int64_t>(steps.count, 0)};
  std::vector<std::vector<Piece>> pieces(steps.count);
  const auto cut = [&](size_t row, size_t step) {
    const int64_t start = std::max(spans.start_ns[row], steps.start_ns[step]);
    const int64_t end = std::min(spans.end_ns[row], steps.end_ns[step]);
    if (start < end)
      pieces[step].push_back({start, end, row, static_cast<size_t>(spans.thread[row]), spans.level[row]});
  };
  for (size_t row = 0; row < spans.count; ++row) {
    if (is_operator(spans.level[row])) {
      if (spans.step[row] >= 0) cut(row, static_cast<size_t>(spans.step[row]));
    } else if (spans.level[row] == kRuntime || spans.level[row] == kLayer) {
      const int64_t* const end = steps.end_ns + steps.count;
      const int64_t* first = std::upper_bound(steps.end_ns, end, spans.start_ns[row]);
      for (auto step = static_cast<size_t>(first - steps.end_ns);
           step < steps.count && steps.start_ns[step] < spans.end_ns[row]; ++step) {
        cut(row, step);
      }
    }
  }
  for (size_t step = 0; step < steps.count; ++step) {
    StepSweep(std::move(pieces[step]), static_cast<size_t>(spans.threads), step, shares)
        .run(steps.start_ns[step], steps.end_ns[step]);
  }
  return shares;
}

}  // namespace profkit::captures
