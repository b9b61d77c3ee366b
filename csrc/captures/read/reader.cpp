// Capture file to columns: blocks are found, sorted by process and thread, and replayed.
#include "captures/read/reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "captures/read/blocks.h"
#include "captures/read/clock.h"
#include "captures/read/device/rows.h"
#include "captures/read/file.h"
#include "captures/read/memory.h"
#include "captures/read/names.h"
#include "captures/read/replay.h"
#include "captures/read/resolve.h"
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

class Decoder {
 public:
  Decoder(Capture& capture, size_t max_rows) : capture_(capture), max_rows_(max_rows) {}

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
  size_t max_rows_;
  StringTable strings_;
  std::vector<ProcessBlocks> processes_;
  std::unordered_map<uint64_t, size_t> index_of_;
  std::vector<Anomalies> anomalies_;
  uint64_t unknown_blocks_ = 0, malformed_blocks_ = 0, processes_without_clock_ = 0;
};

void Decoder::sort_blocks(const std::vector<Block>& blocks) {
  const int32_t lost_name = strings_.index("(name lost)");
  uint64_t words = 0;
  for (const Block& block : blocks) {
    const auto [place, is_new] = index_of_.try_emplace(block.process_id, processes_.size());
    if (is_new) {
      processes_.emplace_back();
      processes_.back().facts.id = block.process_id;
      processes_.back().facts.description = "{}";
      processes_.back().names.set_lost_name(lost_name);
    }
    malformed_blocks_ += sort_block(block) ? 0 : 1;
    if (block.type == BlockType::events) words += block.bytes / 8;
  }
  // A range takes two words at least. Untouched pages cost nothing.
  capture_.ranges.visit([&](std::string_view, auto& column) { column.reserve(words / 2 + 16); });
}

bool Decoder::sort_block(const Block& block) {
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
  ++unknown_blocks_;
  return true;
}

void Decoder::set_clocks() {
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
      ++processes_without_clock_;
      process.map = any;
    }
    process.facts.clock_rate = process.map->rate();
    process.facts.clock_drift_ppm = process.map->drift_ppm();
    process.facts.clock_error_ns = process.map->error_ns();
  }
  set_origin();
}

void Decoder::set_origin() {
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

void Decoder::decode() {
  for (size_t index = 0; index < processes_.size(); ++index) decode_process(index);
}

ProcessSummary Decoder::replay(ProcessBlocks& process, const ForeignEnds& foreign_ends) {
  ProcessSummary summary;
  const ReplayContext context{process.names, *process.map,    capture_.origin_monotonic_ns,
                              max_rows_,     capture_.ranges, summary,
                              foreign_ends,  process.tokens};
  auto row = static_cast<int32_t>(capture_.threads.process.size());
  for (auto& [index, thread] : process.threads)
    replay_thread(context, row++, index, thread.is_ended, thread.events);
  return summary;
}

void Decoder::decode_process(size_t index) {
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
  close_open_rows(summary, process.facts.end_ns, capture_.ranges);
  match_spans(summary, process.facts.end_ns, capture_.ranges);
  const MatchCounts counts = match_allocations(summary.threads, rows, max_rows_, capture_.allocations);
  process.facts.frees_of_unknown = counts.frees_of_unknown;
  summary.anomalies.too_many_allocations = counts.left_out;
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
  anomalies_.push_back(summary.anomalies);
}

int64_t Decoder::process_end_ns(const ProcessBlocks& process, const ProcessSummary& summary) const {
  size_t cursor = 0;
  int64_t end_ns = process.clock.empty() ? 0 : relative(process.map->last_ns());
  if (process.end_ticks != 0) {
    end_ns = std::max(end_ns, relative(process.map->monotonic_ns(process.end_ticks, cursor)));
  }
  for (const ThreadSummary& thread : summary.threads) end_ns = std::max(end_ns, thread.end_ns);
  return end_ns;
}

void Decoder::add_threads(size_t index, const ProcessSummary& summary) {
  const ProcessBlocks& process = processes_[index];
  ThreadColumns& threads = capture_.threads;
  size_t at = 0;
  for (const auto& [thread_index, thread] : process.threads) {
    const ThreadSummary& replayed = summary.threads[at];
    const bool is_first = at == 0;
    const bool lasts = is_first || !replayed.has_times || replayed.is_left_open;
    threads.process.push_back(static_cast<int32_t>(index));
    threads.index.push_back(thread_index);
    threads.os_thread_id.push_back(thread.os_thread_id);
    const std::string fallback = "thread " + std::to_string(thread_index);
    threads.name.push_back(strings_.index(thread.name.empty() ? fallback : thread.name));
    threads.start_ns.push_back(is_first || !replayed.has_times ? process.facts.start_ns : replayed.start_ns);
    threads.end_ns.push_back(lasts ? process.facts.end_ns : replayed.end_ns);
    threads.small_allocations.push_back(thread.small_allocations);
    threads.small_allocated_bytes.push_back(thread.small_allocated_bytes);
    threads.unbalanced_pops.push_back(thread.unbalanced_pops);
    threads.dropped.push_back(replayed.dropped);
    ++at;
  }
}

void Decoder::add_samples(size_t index) {
  size_t cursor = 0;
  for (const tracer::SampleEntry& sample : processes_[index].samples) {
    capture_.samples.process.push_back(static_cast<int32_t>(index));
    capture_.samples.time_ns.push_back(relative(processes_[index].map->monotonic_ns(sample.ticks, cursor)));
    capture_.samples.resident_bytes.push_back(sample.resident_bytes);
  }
}

void Decoder::finish(const BlockList& found) {
  WarningFacts facts;
  facts.unknown_blocks = unknown_blocks_;
  facts.malformed_blocks = malformed_blocks_;
  facts.processes_without_clock = processes_without_clock_;
  facts.max_rows = max_rows_;
  facts.anomalies = anomalies_;
  for (ProcessBlocks& process : processes_) {
    capture_.processes.push_back(std::move(process.facts));
  }
  capture_.strings = strings_.take();
  capture_.warnings = warnings_of(found, facts);
}

}  // namespace

Capture decode_capture(const uint8_t* data, size_t size, size_t max_rows) {
  const tracer::FileHeader header = checked_header(data, size);
  Capture capture;
  capture.capture_id = header.capture_id;
  capture.created_unix_ns = header.created_unix_ns;
  capture.counters = load<tracer::FileCounters>(data + tracer::kHeaderCountersOffset);
  const BlockList found = find_blocks(data, size, header.header_bytes, header.capture_id);
  Decoder decoder(capture, max_rows);
  decoder.sort_blocks(found.blocks);
  decoder.set_clocks();
  decoder.decode();
  decoder.finish(found);
  return capture;
}

}  // namespace profkit::captures
