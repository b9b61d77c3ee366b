// Replays the event words of a thread: blocks in order go in; rows of ranges, and what only the whole process
// can resolve (spans, memory, ends from other threads), come out.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "captures/read/clock.h"
#include "captures/read/names.h"
#include "captures/read/reader.h"

namespace profkit::captures {

struct EventBlock {
  uint64_t first_word, written_ticks;
  const uint8_t* words;
  uint32_t count;
};

struct SpanEvent {
  uint64_t id;
  int64_t time_ns;
  int32_t row;     // of a begin
  int32_t thread;  // of an end
};

struct MemoryEvent {
  enum class Kind : uint8_t { allocate, release, unmap };
  int64_t time_ns;
  uint64_t address, bytes;
  int32_t range;
  uint8_t call;
  Kind kind;
};

// An end written by another thread than the one that began the range.
struct ForeignEnd {
  uint64_t ticks;
  int32_t thread;  // row of the thread that closed it
};

// Foreign ends by opener and begin, as far as the file has them: see foreign_key.
using ForeignEnds = std::unordered_map<uint64_t, std::vector<ForeignEnd>>;
constexpr uint64_t foreign_key(uint64_t opener, uint64_t begin_ticks) {
  return (opener & 0xFFFFF) << tracer::kTickBits | (begin_ticks & tracer::kTickMask);
}

// What one thread's stream gives besides its rows.
struct ThreadSummary {
  uint32_t index = 0;
  int32_t first_row = 0, last_row = 0;  // its rows: [first, last)
  bool has_times = false;
  bool is_left_open = false;  // it has ranges that end with the process
  int64_t start_ns = 0, end_ns = 0;
  uint64_t dropped = 0;
  std::vector<MemoryEvent> memory;
};

// Anomalies counted over a process; they become warnings.
struct Anomalies {
  uint64_t lost_words = 0, gaps = 0;  // jumps of first_word
  uint64_t skipped_events = 0;        // begins and ends after a gap, before the next snapshot
  uint64_t unmatched_ends = 0;        // ends of nothing: only damage makes them
  uint64_t broken_blocks = 0;         // blocks that end within an event or repeat words
  uint64_t unmatched_span_ends = 0;
  uint64_t too_many_rows = 0, too_many_allocations = 0;
  uint64_t lost_labels = 0;  // rows whose name was not defined
};

struct ProcessSummary {
  std::vector<ThreadSummary> threads;
  std::vector<SpanEvent> span_begins, span_ends;
  ForeignEnds foreign_ends;
  std::vector<int32_t> open_rows;  // end with the process
  bool has_moved_spans = false;    // ranges became spans: parents must be looked at again
  Anomalies anomalies;
};

// Ranges that were pushed to CUPTI: rows by the bits of foreign_key, which repeat after hours. Only existing
// keys are filled.
using TokenRows = std::unordered_map<uint64_t, std::vector<int32_t>>;

// Times count from `origin_ns` of CLOCK_MONOTONIC and are never negative.
struct ReplayContext {
  const Names& names;
  const ClockMap& clock;
  int64_t origin_ns;
  size_t max_rows;
  RangeColumns& ranges;
  ProcessSummary& summary;
  // What a first replay of the process found. They are rare, but where there is one, the opener's stack keeps
  // a range that has ended, and only this shows it. In order of time for each key.
  const ForeignEnds& foreign_ends;
  TokenRows& tokens;
};

// Puts the blocks in order of first_word and replays them. `is_ended`: the thread is known to be over, hence
// what it left open ended with it.
void replay_thread(const ReplayContext& context, int32_t thread_row, uint32_t thread_index, bool is_ended,
                   std::vector<EventBlock>& blocks);

// The clock of the first event, if the block has one.
bool first_ticks(const EventBlock& block, uint64_t& ticks);

}  // namespace profkit::captures
