// The thread's stack, rebuilt event by event. All times of a thread ascend, so a range is within its parent
// and siblings follow each other, whatever the file says.
#include "captures/read/replay.h"

#include <algorithm>

#include "captures/read/events.h"

namespace profkit::captures {
namespace {

using tracer::EventKind;
using tracer::kTickBits;
using tracer::kTickMask;

constexpr uint64_t kNever = UINT64_MAX;
// By how much the counters of two cores may differ: a fraction of a millisecond, far below the hours after
// which keys of ranges repeat.
constexpr uint64_t kSkewTicks = uint64_t{1} << 20;

struct ReplayedRange {
  int32_t row;  // -1: inherited by a fork child, whose parent has the row
  uint64_t label, begin_ticks;
  uint64_t foreign_end_ticks;  // another thread ended it then; kNever
  bool has_usage;
  uint32_t usage[4];
};

class Replay {
 public:
  Replay(const ReplayContext& context, int32_t thread_row)
      : context_(context), ranges_(context.ranges), summary_(context.summary), thread_row_(thread_row) {}

  void run(const std::vector<EventBlock>& blocks, ThreadSummary& thread);
  void finish(bool is_ended);

 private:
  void replay_block(const EventBlock& block);
  void apply(const Event& event);
  void advance(const EventBlock& block, const Event& event);
  void lose(uint64_t words);
  int64_t time_of(uint64_t ticks);
  void note_time();

  int32_t add_row(RangeKind kind, uint64_t label, uint64_t ticks);
  void begin(uint64_t label);
  void push(int32_t row, uint64_t label, uint64_t begin_ticks);
  bool is_crossed(size_t index) const;
  void end(uint32_t index);
  void snapshot(const Event& event);
  void inherit(const Event& event, size_t depth);
  size_t own_depth() const { return knows_stack_ ? stack_.size() - inherited_ : 0; }
  void close_from(size_t depth, uint64_t ticks);
  void close_row(const ReplayedRange& range, int64_t end_ns);
  void usage(const Event& event);
  void payload(const Event& event);
  void memory(MemoryEvent::Kind kind, const Event& event, uint64_t bytes);
  int32_t innermost() const;

  const ReplayContext& context_;
  RangeColumns& ranges_;
  ProcessSummary& summary_;
  ThreadSummary* thread_ = nullptr;
  int32_t thread_row_;
  std::vector<ReplayedRange> stack_;
  size_t inherited_ = 0;     // how many ranges at the bottom of the stack have no row
  bool is_at_start_ = true;  // nothing was read or lost so far
  bool knows_stack_ = true;  // false between a loss and the next snapshot
  bool has_ticks_ = false;   // false before the first event and after a loss
  uint64_t ticks_ = 0;       // of the last event
  uint64_t last_ticks_ = 0;  // of the last event of the program itself
  uint64_t loss_ticks_ = 0;  // last_ticks_ when the loss came
  int32_t value_row_ = -1;   // the row that a payload or usage belongs to
  bool has_end_usage_ = false;
  uint32_t end_usage_[4] = {};
  size_t cursor_ = 0;
};

void Replay::run(const std::vector<EventBlock>& blocks, ThreadSummary& thread) {
  thread_ = &thread;
  uint64_t expected = 0;
  for (const EventBlock& block : blocks) {
    if (block.first_word < expected) {
      ++summary_.anomalies.broken_blocks;
      continue;
    }
    if (block.first_word > expected) lose(block.first_word - expected);
    replay_block(block);
    const uint64_t next = block.first_word + block.count;
    expected = std::max(next, block.first_word);
  }
}

void Replay::lose(uint64_t words) {
  is_at_start_ = false;
  ++summary_.anomalies.gaps;
  summary_.anomalies.lost_words += std::min(words, uint64_t{1} << 40);
  if (knows_stack_) loss_ticks_ = last_ticks_;
  knows_stack_ = false;
  has_ticks_ = false;
  value_row_ = -1;
  has_end_usage_ = false;
}

void Replay::replay_block(const EventBlock& block) {
  uint32_t at = 0;
  while (at < block.count) {
    Event event;
    const uint32_t count = read_event(block, at, event);
    if (count == 0) {
      ++summary_.anomalies.broken_blocks;
      lose(block.count - at);
      return;
    }
    advance(block, event);
    apply(event);
    is_at_start_ = false;
    at += count;
  }
}

void Replay::advance(const EventBlock& block, const Event& event) {
  if (event.kind == EventKind::payload || event.kind == EventKind::usage) return;
  uint64_t ticks;
  if (event.kind == EventKind::time) {
    ticks = event.word(1);
  } else if (has_ticks_) {
    const uint64_t step = (event.low_ticks - ticks_) & kTickMask;
    ticks = step < (uint64_t{1} << (kTickBits - 1)) ? ticks_ + step : ticks_;
  } else {
    ticks = near_ticks(block.written_ticks, event.low_ticks);
  }
  ticks_ = std::max(ticks_, std::min(ticks, kNever - 1));
  has_ticks_ = true;
}

void Replay::apply(const Event& event) {
  switch (event.kind) {
    case EventKind::payload:
      return payload(event);
    case EventKind::usage:
      return usage(event);
    case EventKind::time:
      return;
    case EventKind::dropped:
      thread_->dropped += std::min(event.word(1), uint64_t{1} << 40);
      return;
    case EventKind::snapshot:
      snapshot(event);
      value_row_ = -1;
      return;
    case EventKind::begin:
      begin(event.argument);
      break;
    case EventKind::begin_wide:
      begin(event.word(1));
      break;
    case EventKind::end:
      end(event.argument);
      break;
    case EventKind::mark:
      value_row_ = add_row(RangeKind::mark, event.word(1), ticks_);
      break;
    case EventKind::span_begin:
      value_row_ = add_row(RangeKind::span, event.word(2), ticks_);
      if (value_row_ >= 0)
        summary_.span_begins.push_back({event.word(1), time_of(ticks_), value_row_, thread_row_});
      break;
    case EventKind::span_end:
      value_row_ = -1;
      summary_.span_ends.push_back({event.word(1), time_of(ticks_), -1, thread_row_});
      break;
    case EventKind::allocate:
      memory(MemoryEvent::Kind::allocate, event, event.word(2));
      break;
    case EventKind::release:
      memory(MemoryEvent::Kind::release, event, 0);
      break;
    case EventKind::unmap:
      memory(MemoryEvent::Kind::unmap, event, event.word(2));
      break;
    case EventKind::end_elsewhere:
      value_row_ = -1;
      summary_.foreign_ends[foreign_key(event.word(1), event.word(2))].push_back({ticks_, thread_row_});
      break;
  }
  note_time();
}

int32_t Replay::innermost() const {
  if (!knows_stack_) return -1;
  for (size_t at = stack_.size(); at > 0; --at) {
    if (stack_[at - 1].foreign_end_ticks > ticks_) return stack_[at - 1].row;
  }
  return -1;
}

int64_t Replay::time_of(uint64_t ticks) {
  return std::max<int64_t>(context_.clock.monotonic_ns(ticks, cursor_) - context_.origin_ns, 0);
}

void Replay::note_time() {
  if (!thread_->has_times) {
    thread_->start_ns = time_of(ticks_);
    thread_->has_times = true;
  }
  last_ticks_ = ticks_;
}

int32_t Replay::add_row(RangeKind kind, uint64_t label_id, uint64_t ticks) {
  if (ranges_.kind.size() >= context_.max_rows) {
    ++summary_.anomalies.too_many_rows;
    return -1;
  }
  const Label& label = context_.names.label(label_id);
  const int64_t ns = time_of(ticks);
  ranges_.append(static_cast<uint8_t>(kind), label.source, thread_row_, thread_row_, ns, ns, label.name,
                 label.domain, label.category, label.colour, uint8_t{0}, uint64_t{0}, innermost(),
                 static_cast<int32_t>(own_depth()), uint8_t{0}, -1, -1, -1, -1);
  if (context_.names.is_lost(label)) ++summary_.anomalies.lost_labels;
  return static_cast<int32_t>(ranges_.kind.size() - 1);
}

void Replay::begin(uint64_t label) {
  value_row_ = -1;
  if (!knows_stack_ || stack_.size() >= tracer::kMaxDepth) {
    ++summary_.anomalies.skipped_events;
    return;
  }
  value_row_ = add_row(RangeKind::range, label, ticks_);
  if (value_row_ >= 0) push(value_row_, label, ticks_);
}

void Replay::push(int32_t row, uint64_t label, uint64_t begin_ticks) {
  stack_.push_back({row, label, begin_ticks, kNever, false, {}});
  if (!context_.tokens.empty()) {
    const auto wanted = context_.tokens.find(foreign_key(thread_->index, begin_ticks));
    if (wanted != context_.tokens.end()) wanted->second.push_back(row);
  }
  if (context_.foreign_ends.empty()) return;
  const auto found = context_.foreign_ends.find(foreign_key(thread_->index, begin_ticks));
  if (found == context_.foreign_ends.end()) return;
  // The bits of the key repeat after hours: the right end is the first after this begin, or shortly before
  // it, since the counters of two cores may differ.
  const uint64_t earliest = begin_ticks - std::min(begin_ticks, kSkewTicks);
  const auto first =
      std::lower_bound(found->second.begin(), found->second.end(), earliest,
                       [](const ForeignEnd& end, uint64_t ticks) { return end.ticks < ticks; });
  if (first == found->second.end()) return;
  const auto at = static_cast<size_t>(row);
  stack_.back().foreign_end_ticks = std::max(first->ticks, begin_ticks);
  ranges_.kind[at] = static_cast<uint8_t>(RangeKind::span);
  ranges_.end_ns[at] = std::max(ranges_.start_ns[at], time_of(first->ticks));
  ranges_.end_thread[at] = first->thread;
  summary_.has_moved_spans = true;
}

// Whether a range above this one is still open: then closing this one takes it out of the tree.
bool Replay::is_crossed(size_t index) const {
  for (size_t above = index + 1; above < stack_.size(); ++above) {
    if (stack_[above].foreign_end_ticks > ticks_) return true;
  }
  return false;
}

void Replay::end(uint32_t index) {
  value_row_ = -1;
  if (!knows_stack_) {
    ++summary_.anomalies.skipped_events;
  } else if (index >= stack_.size()) {
    ++summary_.anomalies.unmatched_ends;
  } else {
    const ReplayedRange& range = stack_[index];
    value_row_ = range.row;
    close_row(range, time_of(ticks_));
    if (range.row < 0) {
      --inherited_;
    } else if (is_crossed(index)) {
      ranges_.kind[static_cast<size_t>(range.row)] = static_cast<uint8_t>(RangeKind::span);
      summary_.has_moved_spans = true;
    }
    stack_.erase(stack_.begin() + index);
  }
  has_end_usage_ = false;
}

void Replay::close_row(const ReplayedRange& range, int64_t end_ns) {
  if (range.row < 0 || range.foreign_end_ticks != kNever) return;
  const auto row = static_cast<size_t>(range.row);
  ranges_.end_ns[row] = end_ns;
  if (!range.has_usage || !has_end_usage_) return;
  // Counts are kept modulo 2^32, and so is their difference.
  ranges_.minor_faults[row] = end_usage_[0] - range.usage[0];
  ranges_.major_faults[row] = end_usage_[1] - range.usage[1];
  ranges_.voluntary_switches[row] = end_usage_[2] - range.usage[2];
  ranges_.involuntary_switches[row] = end_usage_[3] - range.usage[3];
}

void Replay::close_from(size_t depth, uint64_t ticks) {
  const int64_t end_ns = time_of(ticks);
  while (stack_.size() > depth) {
    close_row(stack_.back(), end_ns);
    if (stack_.back().row < 0) {
      --inherited_;
    } else if (stack_.back().foreign_end_ticks == kNever) {
      ranges_.is_open[static_cast<size_t>(stack_.back().row)] = 1;
    }
    stack_.pop_back();
  }
}

void Replay::snapshot(const Event& event) {
  const size_t depth = std::min<size_t>(event.argument, tracer::kMaxDepth);
  has_end_usage_ = false;
  if (is_at_start_) return inherit(event, depth);
  size_t same = 0;
  while (same < std::min(depth, stack_.size()) && stack_[same].label == event.word(1 + 2 * same) &&
         stack_[same].begin_ticks == event.word(2 + 2 * same)) {
    ++same;
  }
  // What is no longer there ended unseen: the last time it was known to be open is where the loss began.
  close_from(same, knows_stack_ ? last_ticks_ : loss_ticks_);
  knows_stack_ = true;
  for (size_t i = same; i < depth; ++i) {
    const uint64_t label = event.word(1 + 2 * i), begin_ticks = event.word(2 + 2 * i);
    // Its begin was lost: not before what was seen last, nor after now.
    const uint64_t start_ticks = std::min(std::max(begin_ticks, last_ticks_), ticks_);
    const int32_t row = add_row(RangeKind::range, label, start_ticks);
    if (row < 0) return;
    push(row, label, begin_ticks);
    if (!thread_->has_times) thread_->start_ns = time_of(start_ticks);
    thread_->has_times = true;
    last_ticks_ = start_ticks;
  }
}

// A fork child lists the ranges that its parent has open. They stay the parent's: counted here as well, they
// would multiply its calls and its time by the number of its children.
void Replay::inherit(const Event& event, size_t depth) {
  for (size_t i = 0; i < depth; ++i) {
    stack_.push_back({-1, event.word(1 + 2 * i), event.word(2 + 2 * i), kNever, false, {}});
  }
  inherited_ = depth;
}

void Replay::usage(const Event& event) {
  const uint64_t faults = event.word(1), switches = event.word(2);
  const uint32_t counts[4] = {static_cast<uint32_t>(faults), static_cast<uint32_t>(faults >> 32),
                              static_cast<uint32_t>(switches), static_cast<uint32_t>(switches >> 32)};
  if (event.argument == 1) {
    std::copy(counts, counts + 4, end_usage_);
    has_end_usage_ = true;
  } else if (knows_stack_ && stack_.size() > inherited_ && stack_.back().row == value_row_) {
    std::copy(counts, counts + 4, stack_.back().usage);
    stack_.back().has_usage = true;
  }
}

void Replay::payload(const Event& event) {
  if (value_row_ < 0) return;
  const auto row = static_cast<size_t>(value_row_);
  const bool is_known =
      event.argument >= 1 && event.argument <= static_cast<uint32_t>(tracer::PayloadType::opaque);
  ranges_.payload_type[row] = is_known ? static_cast<uint8_t>(event.argument) : 0;
  ranges_.payload[row] = is_known ? event.word(1) : 0;
}

void Replay::memory(MemoryEvent::Kind kind, const Event& event, uint64_t bytes) {
  value_row_ = -1;
  thread_->memory.push_back(
      {time_of(ticks_), event.word(1), bytes, innermost(), static_cast<uint8_t>(event.argument), kind});
}

void Replay::finish(bool is_ended) {
  if (!knows_stack_) close_from(0, loss_ticks_);
  thread_->end_ns = thread_->has_times ? time_of(last_ticks_) : 0;
  if (is_ended) {
    close_from(0, last_ticks_);
    return;
  }
  for (const ReplayedRange& range : stack_) {
    if (range.row < 0 || range.foreign_end_ticks != kNever) continue;
    summary_.open_rows.push_back(range.row);
    thread_->is_left_open = true;
  }
}

}  // namespace

void replay_thread(const ReplayContext& context, int32_t thread_row, uint32_t thread_index, bool is_ended,
                   std::vector<EventBlock>& blocks) {
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const EventBlock& a, const EventBlock& b) { return a.first_word < b.first_word; });
  ThreadSummary thread;
  thread.index = thread_index;
  thread.first_row = static_cast<int32_t>(context.ranges.kind.size());
  Replay replay(context, thread_row);
  replay.run(blocks, thread);
  replay.finish(is_ended);
  thread.last_row = static_cast<int32_t>(context.ranges.kind.size());
  context.summary.threads.push_back(std::move(thread));
}

}  // namespace profkit::captures
