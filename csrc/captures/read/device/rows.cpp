// Two passes over the entries of a process: clocks and correlations first, since CUPTI promises no order,
// then everything that has a time.
#include "captures/read/device/rows.h"

#include <algorithm>
#include <type_traits>

#include "captures/read/device/clock.h"
#include "tracer/file/device_format.h"

namespace profkit::captures {
namespace {

using tracer::DeviceEntryHeader;
using tracer::DeviceEntryKind;

constexpr uint64_t kLargest = uint64_t{1} << 62;

// Calls `visit(kind, bytes of the entry, its size)`; false when the block is not well formed.
template <class Visit>
bool for_each_entry(const Block& block, Visit visit) {
  uint32_t at = 0;
  while (block.bytes - at >= sizeof(DeviceEntryHeader)) {
    const auto header = load<DeviceEntryHeader>(block.payload + at);
    if (header.bytes < sizeof(header) || header.bytes % 8 != 0 || header.bytes > block.bytes - at)
      return false;
    if (!visit(header.kind, block.payload + at, header.bytes)) return false;
    at += header.bytes;
  }
  return at == block.bytes;
}

template <class... Entries>
struct EntryTypes {};
using KnownEntries =
    EntryTypes<tracer::DeviceKernelEntry, tracer::DeviceCopyEntry, tracer::DeviceSetEntry,
               tracer::DeviceCallEntry, tracer::DeviceCorrelationEntry, tracer::DeviceMemoryEntry,
               tracer::DeviceOverheadEntry, tracer::DeviceDeviceEntry, tracer::DeviceCountsEntry,
               tracer::DeviceClockEntry, tracer::DevicePoolEntry>;

// Calls visit(entry) with the entry of this kind; a kind of a later version is visited as its header. False:
// it is shorter than its kind must be.
template <class Visit, class... Entries>
bool visit_entry(DeviceEntryKind kind, const uint8_t* bytes, uint32_t size, const Visit& visit,
                 EntryTypes<Entries...>) {
  bool is_whole = true;
  const auto visit_as = [&](auto entry) {
    is_whole = size >= sizeof(entry);
    if (is_whole) visit(load<decltype(entry)>(bytes));
    return true;
  };
  if (!((kind == Entries::kKind && visit_as(Entries{})) || ...)) visit_as(DeviceEntryHeader{});
  return is_whole;
}

// Only entries that are long enough for their kind.
template <class Visit>
void for_each_whole_entry(const std::vector<Block>& blocks, const Visit& visit) {
  for (const Block& block : blocks) {
    for_each_entry(block, [&](DeviceEntryKind kind, const uint8_t* bytes, uint32_t size) {
      visit_entry(kind, bytes, size, visit, KnownEntries{});
      return true;
    });
  }
}

// The same for the entries of one type.
template <class Entry, class Visit>
void for_each_of(const std::vector<Block>& blocks, const Visit& visit) {
  for_each_whole_entry(blocks, [&](const auto& entry) {
    if constexpr (std::is_same_v<decltype(entry), const Entry&>) visit(entry);
  });
}

int64_t bounded(uint64_t value) { return static_cast<int64_t>(std::min(value, kLargest)); }
uint8_t small(uint32_t value) { return static_cast<uint8_t>(std::min<uint32_t>(value, 255)); }
int64_t id_or_none(uint32_t id) { return id == 0 ? -1 : int64_t{id}; }

// What copies and sets have in place of a launch.
constexpr tracer::DeviceKernelEntry kNoKernel{{}, {}, 0, 0, ~0u, {-1, -1, -1}, {-1, -1, -1}, -1, -1};

class Rows {
 public:
  Rows(const DeviceContext& context, const DeviceClock& clock, DeviceColumns& rows)
      : context_(context), clock_(clock), rows_(rows) {}

  void note_correlation(const tracer::DeviceCorrelationEntry& entry) {
    correlations_[entry.correlation] = {entry.range_token, false};
  }
  void add(const tracer::DeviceKernelEntry& entry) {
    add_work(DeviceActivityKind::kernel, entry.work, context_.names.string(entry.name), entry, -1, {});
  }
  void add(const tracer::DeviceCopyEntry& entry) {
    add_work(DeviceActivityKind::copy, entry.work, -1, kNoKernel, bounded(entry.bytes),
             {entry.copy_kind, entry.source_kind, entry.target_kind});
  }
  void add(const tracer::DeviceSetEntry& entry) {
    add_work(DeviceActivityKind::set, entry.work, -1, kNoKernel, bounded(entry.bytes),
             {0, 0, small(entry.memory_kind)});
  }
  void add(const tracer::DeviceCallEntry& entry);
  void add(const tracer::DeviceMemoryEntry& entry) {
    const int64_t bytes = entry.is_release != 0 ? -bounded(entry.bytes) : bounded(entry.bytes);
    rows_.memory.append(context_.process, static_cast<int32_t>(entry.device), time(entry.time_ns),
                        entry.address, entry.pool, bytes, small(entry.memory_kind),
                        id_or_none(entry.correlation));
  }
  void add(const tracer::DevicePoolEntry& entry) {
    rows_.pools.append(context_.process, static_cast<int32_t>(entry.device), time(entry.time_ns),
                       entry.address, bounded(entry.reserved_bytes), bounded(entry.used_bytes),
                       small(entry.operation));
  }
  void add(const tracer::DeviceOverheadEntry& entry) {
    const int64_t start_ns = time(entry.start_ns);
    rows_.overhead.append(context_.process, start_ns, std::max(start_ns, time(entry.end_ns)),
                          entry.overhead_kind);
  }
  void add(const tracer::DeviceDeviceEntry& entry) {
    rows_.devices.append(context_.process, context_.names.string(entry.name), entry.id,
                         entry.capability_major, entry.capability_minor, entry.multiprocessors,
                         entry.warps_per_multiprocessor, entry.shared_bytes_per_multiprocessor,
                         entry.core_clock_khz, entry.l2_bytes, entry.memory_bytes, entry.memory_bandwidth);
  }
  template <class Other>
  void add(const Other&) {}  // makes no row
  uint64_t correlations_without_call() const {
    return static_cast<uint64_t>(
        std::count_if(correlations_.begin(), correlations_.end(),
                      [](const auto& correlation) { return !correlation.second.has_call; }));
  }

 private:
  int64_t time(uint64_t device_ns) const {
    return std::max<int64_t>(clock_.monotonic_ns(device_ns) - context_.origin_ns, 0);
  }
  struct Moved {
    uint8_t copy_kind, source_kind, target_kind;
  };
  void add_work(DeviceActivityKind kind, const tracer::DeviceWork& work, int32_t name,
                const tracer::DeviceKernelEntry& kernel, int64_t bytes, Moved moved);
  int32_t row_of_token(uint64_t token, int64_t time_ns) const;

  const DeviceContext& context_;
  const DeviceClock& clock_;
  DeviceColumns& rows_;
  struct Correlation {
    uint64_t token;
    bool has_call;
  };
  std::unordered_map<uint32_t, Correlation> correlations_;  // by correlation
};

void Rows::add_work(DeviceActivityKind kind, const tracer::DeviceWork& work, int32_t name,
                    const tracer::DeviceKernelEntry& kernel, int64_t bytes, Moved moved) {
  const int64_t start_ns = time(work.start_ns);
  rows_.activities.append(static_cast<uint8_t>(kind), context_.process, static_cast<int32_t>(work.device),
                          work.context, work.stream, start_ns, std::max(start_ns, time(work.end_ns)),
                          kernel.queued_ns == 0 ? -1 : time(kernel.queued_ns), name,
                          id_or_none(work.correlation), work.graph_node == 0 ? -1 : bounded(work.graph_node),
                          bytes, moved.copy_kind, moved.source_kind, moved.target_kind, kernel.grid[0],
                          kernel.grid[1], kernel.grid[2], kernel.block[0], kernel.block[1], kernel.block[2],
                          static_cast<int32_t>(kernel.registers), kernel.static_shared_bytes,
                          kernel.dynamic_shared_bytes);
}

// Of several ranges with the same bits, the latest that had begun; clocks differ a little.
int32_t Rows::row_of_token(uint64_t token, int64_t time_ns) const {
  const auto found = context_.tokens.find(token);
  if (found == context_.tokens.end() || found->second.empty()) return -1;
  int32_t row = found->second.front();
  const int64_t latest_ns = time_ns + std::max<int64_t>(clock_.error_ns(), 0) + 1'000'000;
  for (const int32_t candidate : found->second) {
    if (context_.ranges.start_ns[static_cast<size_t>(candidate)] <= latest_ns) row = candidate;
  }
  return row;
}

void Rows::add(const tracer::DeviceCallEntry& entry) {
  const int64_t start_ns = time(entry.start_ns);
  const auto correlation = correlations_.find(entry.correlation);
  const bool has_token = correlation != correlations_.end();
  if (has_token) correlation->second.has_call = true;
  rows_.calls.append(context_.process, entry.os_thread_id, start_ns, std::max(start_ns, time(entry.end_ns)),
                     context_.names.string(entry.name), id_or_none(entry.correlation), entry.return_code,
                     entry.is_driver != 0, has_token,
                     has_token ? row_of_token(correlation->second.token, start_ns) : -1);
}

void take_counts(const tracer::DeviceCountsEntry& entry, DeviceCounts& counts) {
  // Counts so far: the latest entry has the most.
  counts.dropped_by_cupti = std::max(counts.dropped_by_cupti, entry.dropped_by_cupti);
  counts.dropped_too_slow = std::max(counts.dropped_too_slow, entry.dropped_too_slow);
  counts.unknown_records = std::max(counts.unknown_records, entry.unknown_records);
  counts.cut_records = std::max(counts.cut_records, entry.cut_records);
  counts.unfinished = std::max(counts.unfinished, entry.unfinished);
}

}  // namespace

bool is_well_formed(const Block& block) {
  return for_each_entry(block, [](DeviceEntryKind kind, const uint8_t* bytes, uint32_t size) {
    return visit_entry(kind, bytes, size, [](const auto&) {}, KnownEntries{});
  });
}

TokenRows wanted_tokens(const std::vector<Block>& blocks) {
  TokenRows wanted;
  for_each_of<tracer::DeviceCorrelationEntry>(
      blocks, [&](const auto& entry) { wanted.try_emplace(entry.range_token); });
  return wanted;
}

DeviceCounts append_device_rows(const std::vector<Block>& blocks, const DeviceContext& context,
                                DeviceColumns& rows) {
  DeviceCounts counts;
  std::vector<tracer::DeviceClockEntry> pairs;
  for_each_whole_entry(blocks, [&](const auto& entry) {
    using Entry = std::decay_t<decltype(entry)>;
    if constexpr (std::is_same_v<Entry, tracer::DeviceClockEntry>) {
      pairs.push_back(entry);
    } else if constexpr (std::is_same_v<Entry, tracer::DeviceCountsEntry>) {
      take_counts(entry, counts);
    } else {
      ++counts.entries;
    }
  });
  const DeviceClock clock(std::move(pairs));
  counts.clock_error_ns = clock.error_ns();
  counts.clock_steps = clock.steps();
  if (!clock.is_known()) return counts;
  Rows decoded(context, clock, rows);
  for_each_of<tracer::DeviceCorrelationEntry>(blocks,
                                              [&](const auto& entry) { decoded.note_correlation(entry); });
  for_each_whole_entry(blocks, [&](const auto& entry) { decoded.add(entry); });
  counts.correlations_without_call = decoded.correlations_without_call();
  return counts;
}

}  // namespace profkit::captures
