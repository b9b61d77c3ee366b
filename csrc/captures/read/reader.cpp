// Capture file to columns: blocks are found, sorted by process and thread, and replayed.
#include "captures/read/reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "captures/read/blocks.h"
#include "captures/read/clock.h"
#include "captures/read/device/rows.h"
#include "captures/read/file.h"
#include "captures/read/memory.h"
#include "captures/read/names.h"
#include "captures/read/replay.h"
#include "captures/read/warnings.h"

namespace profkit::captures {
namespace {

using tracer::BlockType;

struct ThreadBlocks {
  std::string name;
  uint64_t os_thread_id = 0;
  uint64_t small_allocations = 0, small_allocated_bytes = 0, unbalanced_pops = 0;
  bool is_ended = false;
  std::vector<EventBlock> events;
};

// Everything of one process before it is decoded.
struct ProcessBlocks {
  Process facts;
  Names names;
  std::map<uint32_t, ThreadBlocks> threads;
  std::vector<tracer::ClockEntry> clock;
  std::vector<tracer::SampleEntry> samples;
  std::vector<Block> device;
  TokenRows tokens;
  uint64_t end_ticks = 0;
  // Shared: a file may have many processes without a clock, which then use the same one.
  std::shared_ptr<const ClockMap> map;
};

template <typename T>
void append_entries(const Block& block, std::vector<T>& entries) {
  for (uint32_t at = 0; block.bytes - at >= sizeof(T); at += static_cast<uint32_t>(sizeof(T))) {
    entries.push_back(load<T>(block.payload + at));
  }
}

void add_thread_entry(const Block& block, ProcessBlocks& process) {
  if (block.bytes < sizeof(tracer::ThreadEntry)) return;
  const auto entry = load<tracer::ThreadEntry>(block.payload);
  ThreadBlocks& thread = process.threads[entry.thread];
  const std::string_view name(entry.name, strnlen(entry.name, sizeof entry.name));
  if (!name.empty()) thread.name = name;
  thread.is_ended = thread.is_ended || entry.is_ended != 0;
  if (entry.os_thread_id != 0) thread.os_thread_id = entry.os_thread_id;
  // Counts so far: the latest entry has the most.
  thread.small_allocations = std::max(thread.small_allocations, entry.small_allocations);
  thread.small_allocated_bytes = std::max(thread.small_allocated_bytes, entry.small_allocated_bytes);
  thread.unbalanced_pops = std::max(thread.unbalanced_pops, entry.unbalanced_pops);
}

bool add_events(const Block& block, ProcessBlocks& process) {
  if (block.bytes < sizeof(tracer::EventsHeader)) return false;
  const auto header = load<tracer::EventsHeader>(block.payload);
  const size_t room = (block.bytes - sizeof header) / 8;
  if (header.word_count > room) return false;
  process.threads[header.thread].events.push_back(
      {header.first_word, header.written_ticks, block.payload + sizeof header, header.word_count});
  return true;
}

std::string description_of(const Block& block) {
  const auto* text = reinterpret_cast<const char*>(block.payload);
  return valid_utf8({text, strnlen(text, block.bytes)});
}

ForeignEnds sorted_by_time(ForeignEnds ends) {
  for (auto& [key, same] : ends) {
    std::sort(same.begin(), same.end(), [](const auto& a, const auto& b) { return a.ticks < b.ticks; });
  }
  return ends;
}

// --- What needs the whole process, after all its threads are replayed ---

bool is_earlier(const SpanEvent& a, const SpanEvent& b) {
  return std::tie(a.id, a.time_ns) < std::tie(b.id, b.time_ns);
}

void leave_open(RangeColumns& ranges, int32_t row, int64_t end_ns) {
  const auto at = static_cast<size_t>(row);
  ranges.end_ns[at] = std::max(ranges.start_ns[at], end_ns);
  ranges.is_open[at] = 1;
}

// Pairs span begins and ends by id; a begin alone stays open until `end_ns`.
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

// Parents, depths and allocations refer to ranges of the tree only: those of a range that turned out to be a
// span move to the nearest range around it.
void lift_children_of_spans(size_t first_row, size_t first_allocation, RangeColumns& ranges,
                            AllocationColumns& allocations) {
  const auto lifted = [&](int32_t row) {
    // Rows before this one are done, so one step reaches a range.
    return row >= 0 && ranges.kind[static_cast<size_t>(row)] == static_cast<uint8_t>(RangeKind::span)
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

class CaptureDecoder {
 public:
  CaptureDecoder(Capture& capture, size_t max_rows) : capture_(capture) { facts_.max_rows = max_rows; }

  void sort_blocks(const std::vector<Block>& blocks);
  void set_clocks();
  void decode();
  void finish(const BlockList& found);

 private:
  bool sort_block(const Block& block);
  void set_origin();
  ProcessSummary replay(ProcessBlocks& process, const ForeignEnds& foreign_ends);
  void decode_process(size_t index);
  void add_threads(size_t index, const ProcessSummary& summary);
  void add_samples(size_t index);
  int64_t process_end_ns(const ProcessBlocks& process, const ProcessSummary& summary) const;
  int64_t relative(int64_t monotonic_ns) const {
    return std::max<int64_t>(monotonic_ns - capture_.origin_monotonic_ns, 0);
  }

  Capture& capture_;
  StringTable strings_;
  std::vector<ProcessBlocks> processes_;
  std::unordered_map<uint64_t, size_t> index_of_;
  WarningFacts facts_;
};

void CaptureDecoder::sort_blocks(const std::vector<Block>& blocks) {
  const int32_t lost_name = strings_.index("(name lost)");
  uint64_t words = 0;
  for (const Block& block : blocks) {
    const auto [place, is_new] = index_of_.try_emplace(block.process_id, processes_.size());
    if (is_new) {
      processes_.emplace_back();
      processes_.back().facts.description = "{}";
      processes_.back().names.set_lost_name(lost_name);
    }
    facts_.malformed_blocks += sort_block(block) ? 0 : 1;
    if (block.type == BlockType::events) words += block.bytes / 8;
  }
  // A range takes two words at least. Untouched pages cost nothing.
  capture_.ranges.visit([&](std::string_view, auto& column) { column.reserve(words / 2 + 16); });
}

bool CaptureDecoder::sort_block(const Block& block) {
  ProcessBlocks& process = processes_[index_of_[block.process_id]];
  switch (block.type) {
    case BlockType::process:
      process.facts.description = description_of(block);
      return true;
    case BlockType::definitions:
      return process.names.add_block(block.payload, block.bytes, strings_);
    case BlockType::thread:
      add_thread_entry(block, process);
      return block.bytes >= sizeof(tracer::ThreadEntry);
    case BlockType::events:
      return add_events(block, process);
    case BlockType::clock:
      append_entries(block, process.clock);
      return true;
    case BlockType::samples:
      append_entries(block, process.samples);
      return true;
    case BlockType::overhead: {
      if (block.bytes < sizeof(tracer::OverheadEntry)) return false;
      const auto entry = load<tracer::OverheadEntry>(block.payload);
      process.facts.empty_range_ns = entry.empty_range_ns;
      process.facts.clock_read_ns = entry.clock_read_ns;
      process.facts.cross_core_skew_ns = entry.cross_core_skew_ns;
      return true;
    }
    case BlockType::device_records:
      process.device.push_back(block);
      return is_well_formed(block);
    case BlockType::end:
      if (block.bytes < sizeof(tracer::EndEntry)) return false;
      process.end_ticks = std::max(process.end_ticks, load<tracer::EndEntry>(block.payload).ticks);
      process.facts.has_ended = true;
      return true;
  }
  ++facts_.unknown_blocks;
  return true;
}

void CaptureDecoder::set_clocks() {
  double rate = 0;
  std::shared_ptr<const ClockMap> any;
  for (ProcessBlocks& process : processes_) {
    if (process.clock.empty()) continue;
    process.map = std::make_shared<const ClockMap>(process.clock, 0);
    if (rate == 0 && process.map->has_rate()) rate = process.map->rate();
  }
  for (ProcessBlocks& process : processes_) {
    if (process.clock.empty()) continue;
    if (!process.map->has_rate()) process.map = std::make_shared<const ClockMap>(process.clock, rate);
    if (any == nullptr) any = process.map;
  }
  if (any == nullptr) any = std::make_shared<const ClockMap>();
  for (ProcessBlocks& process : processes_) {
    if (process.clock.empty()) {
      // Killed before its first sync point. Processes of one machine share the counter: another one's map
      // fits.
      ++facts_.processes_without_clock;
      process.map = any;
    }
    process.facts.clock_drift_ppm = process.map->drift_ppm();
    process.facts.clock_error_ns = process.map->error_ns();
  }
  set_origin();
}

void CaptureDecoder::set_origin() {
  bool is_set = false;
  const auto consider = [&](int64_t ns) {
    if (!is_set || ns < capture_.origin_monotonic_ns) capture_.origin_monotonic_ns = ns;
    is_set = true;
  };
  for (const ProcessBlocks& process : processes_) {
    size_t cursor = 0;
    if (!process.clock.empty()) consider(process.map->first_ns());
    for (const auto& [index, thread] : process.threads) {
      for (const EventBlock& block : thread.events) {
        uint64_t ticks = 0;
        if (block.first_word == 0 && first_ticks(block, ticks))
          consider(process.map->monotonic_ns(ticks, cursor));
      }
    }
  }
}

void CaptureDecoder::decode() {
  for (size_t index = 0; index < processes_.size(); ++index) decode_process(index);
}

ProcessSummary CaptureDecoder::replay(ProcessBlocks& process, const ForeignEnds& foreign_ends) {
  ProcessSummary summary;
  summary.anomalies = facts_.anomalies;  // of the processes before
  const ReplayContext context{process.names,   *process.map,    capture_.origin_monotonic_ns,
                              facts_.max_rows, capture_.ranges, summary,
                              foreign_ends,    process.tokens};
  auto row = static_cast<int32_t>(capture_.threads.process.size());
  for (auto& [index, thread] : process.threads)
    replay_thread(context, row++, index, thread.is_ended, thread.events);
  return summary;
}

void CaptureDecoder::decode_process(size_t index) {
  ProcessBlocks& process = processes_[index];
  const size_t first_row = capture_.ranges.kind.size();
  const size_t first_allocation = capture_.allocations.time_ns.size();
  process.tokens = wanted_tokens(process.device);
  ProcessSummary summary = replay(process, {});
  if (!summary.foreign_ends.empty()) {
    const ForeignEnds foreign_ends = sorted_by_time(std::move(summary.foreign_ends));
    capture_.ranges.visit([&](std::string_view, auto& column) { column.resize(first_row); });
    for (auto& [token, token_rows] : process.tokens) token_rows.clear();
    summary = replay(process, foreign_ends);
  }
  std::vector<int32_t> rows(process.threads.size());
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(capture_.threads.process.size()));
  process.facts.end_ns = process_end_ns(process, summary);
  for (const int32_t row : summary.open_rows) leave_open(capture_.ranges, row, process.facts.end_ns);
  match_spans(summary, process.facts.end_ns, capture_.ranges);
  const MatchCounts counts = match_allocations(summary.threads, rows, facts_.max_rows, capture_.allocations);
  process.facts.frees_of_unknown = counts.frees_of_unknown;
  summary.anomalies.too_many_allocations += counts.left_out;
  if (summary.has_moved_spans)
    lift_children_of_spans(first_row, first_allocation, capture_.ranges, capture_.allocations);
  process.facts.start_ns = process.clock.empty() ? process.facts.end_ns : relative(process.map->first_ns());
  for (const ThreadSummary& thread : summary.threads) {
    if (thread.has_times) process.facts.start_ns = std::min(process.facts.start_ns, thread.start_ns);
  }
  add_threads(index, summary);
  add_samples(index);
  if (!process.device.empty()) {
    process.facts.device = append_device_rows(process.device,
                                              {static_cast<int32_t>(index), capture_.origin_monotonic_ns,
                                               process.names, process.tokens, capture_.ranges},
                                              capture_.device);
  }
  facts_.anomalies = summary.anomalies;
}

int64_t CaptureDecoder::process_end_ns(const ProcessBlocks& process, const ProcessSummary& summary) const {
  size_t cursor = 0;
  int64_t end_ns = process.clock.empty() ? 0 : relative(process.map->last_ns());
  if (process.end_ticks != 0) {
    end_ns = std::max(end_ns, relative(process.map->monotonic_ns(process.end_ticks, cursor)));
  }
  for (const ThreadSummary& thread : summary.threads) end_ns = std::max(end_ns, thread.end_ns);
  return end_ns;
}

void CaptureDecoder::add_threads(size_t index, const ProcessSummary& summary) {
  const ProcessBlocks& process = processes_[index];
  ThreadColumns& threads = capture_.threads;
  size_t at = 0;
  for (const auto& [thread_index, thread] : process.threads) {
    const ThreadSummary& replayed = summary.threads[at];
    const bool is_first = at == 0;
    const bool lasts = is_first || !replayed.has_times || replayed.is_left_open;
    const std::string fallback = "thread " + std::to_string(thread_index);
    threads.append(static_cast<int32_t>(index), thread_index, thread.os_thread_id,
                   strings_.index(thread.name.empty() ? fallback : thread.name),
                   is_first || !replayed.has_times ? process.facts.start_ns : replayed.start_ns,
                   lasts ? process.facts.end_ns : replayed.end_ns, thread.small_allocations,
                   thread.small_allocated_bytes, thread.unbalanced_pops, replayed.dropped);
    ++at;
  }
}

void CaptureDecoder::add_samples(size_t index) {
  size_t cursor = 0;
  for (const tracer::SampleEntry& sample : processes_[index].samples) {
    capture_.samples.append(static_cast<int32_t>(index),
                            relative(processes_[index].map->monotonic_ns(sample.ticks, cursor)),
                            sample.resident_bytes);
  }
}

void CaptureDecoder::finish(const BlockList& found) {
  for (ProcessBlocks& process : processes_) capture_.processes.push_back(std::move(process.facts));
  capture_.strings = strings_.take();
  capture_.warnings = warnings_of(found, facts_);
}

}  // namespace

Capture decode_capture(const uint8_t* data, size_t size, size_t max_rows) {
  const tracer::FileHeader header = checked_header(data, size);
  Capture capture;
  capture.created_unix_ns = header.created_unix_ns;
  capture.counters = load<tracer::FileCounters>(data + tracer::kHeaderCountersOffset);
  const BlockList found = find_blocks(data, size, header.header_bytes, header.capture_id);
  CaptureDecoder decoder(capture, max_rows);
  decoder.sort_blocks(found.blocks);
  decoder.set_clocks();
  decoder.decode();
  decoder.finish(found);
  return capture;
}

}  // namespace profkit::captures
