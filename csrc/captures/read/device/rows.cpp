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

// Calls visit(entry) with the entry of this kind; a kind of a later version is visited as its header. False:
// it is shorter than its kind must be.
template <class Visit>
bool visit_entry(DeviceEntryKind kind, const uint8_t* bytes, uint32_t size, const Visit& visit) {
  const auto as = [&](auto entry) {
    if (size < sizeof(entry)) return false;
    visit(load<decltype(entry)>(bytes));
    return true;
  };
  switch (kind) {
    case DeviceEntryKind::kernel:
      return as(tracer::DeviceKernelEntry{});
    case DeviceEntryKind::copy:
      return as(tracer::DeviceCopyEntry{});
    case DeviceEntryKind::set:
      return as(tracer::DeviceSetEntry{});
    case DeviceEntryKind::call:
      return as(tracer::DeviceCallEntry{});
    case DeviceEntryKind::correlation:
      return as(tracer::DeviceCorrelationEntry{});
    case DeviceEntryKind::memory:
      return as(tracer::DeviceMemoryEntry{});
    case DeviceEntryKind::overhead:
      return as(tracer::DeviceOverheadEntry{});
    case DeviceEntryKind::device:
      return as(tracer::DeviceDeviceEntry{});
    case DeviceEntryKind::counts:
      return as(tracer::DeviceCountsEntry{});
    case DeviceEntryKind::clock:
      return as(tracer::DeviceClockEntry{});
    case DeviceEntryKind::pool:
      return as(tracer::DevicePoolEntry{});
  }
  return as(DeviceEntryHeader{});
}

// Only entries that are long enough for their kind.
template <class Visit>
void for_each_whole_entry(const std::vector<Block>& blocks, const Visit& visit) {
  for (const Block& block : blocks) {
    for_each_entry(block, [&](DeviceEntryKind kind, const uint8_t* bytes, uint32_t size) {
      visit_entry(kind, bytes, size, visit);
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

class Rows {
 public:
  Rows(const DeviceContext& context, const DeviceClock& clock, DeviceColumns& rows)
      : context_(context), clock_(clock), rows_(rows) {}

  void note_correlation(const tracer::DeviceCorrelationEntry& entry) {
    correlations_[entry.correlation] = {entry.range_token, false};
  }
  void add(const tracer::DeviceKernelEntry& entry);
  void add(const tracer::DeviceCopyEntry& entry);
  void add(const tracer::DeviceSetEntry& entry);
  void add(const tracer::DeviceCallEntry& entry);
  void add(const tracer::DeviceMemoryEntry& entry);
  void add(const tracer::DevicePoolEntry& entry);
  void add(const tracer::DeviceOverheadEntry& entry);
  void add(const tracer::DeviceDeviceEntry& entry);
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
  void add_work(DeviceActivityKind kind, const tracer::DeviceWork& work);
  void add_no_geometry();
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

void Rows::add_work(DeviceActivityKind kind, const tracer::DeviceWork& work) {
  DeviceActivityColumns& to = rows_.activities;
  to.kind.push_back(static_cast<uint8_t>(kind));
  to.process.push_back(context_.process);
  to.device.push_back(static_cast<int32_t>(work.device));
  to.context.push_back(work.context);
  to.stream.push_back(work.stream);
  const int64_t start_ns = time(work.start_ns);
  to.start_ns.push_back(start_ns);
  to.end_ns.push_back(std::max(start_ns, time(work.end_ns)));
  to.correlation.push_back(work.correlation == 0 ? -1 : int64_t{work.correlation});
  to.graph_node.push_back(work.graph_node == 0 ? -1 : bounded(work.graph_node));
}

void Rows::add_no_geometry() {
  DeviceActivityColumns& to = rows_.activities;
  to.queued_ns.push_back(-1);
  to.name.push_back(-1);
  for (auto* column : {&to.grid_x, &to.grid_y, &to.grid_z, &to.block_x, &to.block_y, &to.block_z,
                       &to.registers, &to.static_shared_bytes, &to.dynamic_shared_bytes}) {
    column->push_back(-1);
  }
}

void Rows::add(const tracer::DeviceKernelEntry& entry) {
  DeviceActivityColumns& to = rows_.activities;
  add_work(DeviceActivityKind::kernel, entry.work);
  to.queued_ns.push_back(entry.queued_ns == 0 ? -1 : time(entry.queued_ns));
  to.name.push_back(context_.names.string(entry.name));
  to.bytes.push_back(-1);
  to.copy_kind.push_back(0);
  to.source_kind.push_back(0);
  to.target_kind.push_back(0);
  to.grid_x.push_back(entry.grid[0]);
  to.grid_y.push_back(entry.grid[1]);
  to.grid_z.push_back(entry.grid[2]);
  to.block_x.push_back(entry.block[0]);
  to.block_y.push_back(entry.block[1]);
  to.block_z.push_back(entry.block[2]);
  to.registers.push_back(static_cast<int32_t>(entry.registers));
  to.static_shared_bytes.push_back(entry.static_shared_bytes);
  to.dynamic_shared_bytes.push_back(entry.dynamic_shared_bytes);
}

void Rows::add(const tracer::DeviceCopyEntry& entry) {
  DeviceActivityColumns& to = rows_.activities;
  add_work(DeviceActivityKind::copy, entry.work);
  add_no_geometry();
  to.bytes.push_back(bounded(entry.bytes));
  to.copy_kind.push_back(entry.copy_kind);
  to.source_kind.push_back(entry.source_kind);
  to.target_kind.push_back(entry.target_kind);
}

void Rows::add(const tracer::DeviceSetEntry& entry) {
  DeviceActivityColumns& to = rows_.activities;
  add_work(DeviceActivityKind::set, entry.work);
  add_no_geometry();
  to.bytes.push_back(bounded(entry.bytes));
  to.copy_kind.push_back(0);
  to.source_kind.push_back(0);
  to.target_kind.push_back(static_cast<uint8_t>(std::min<uint16_t>(entry.memory_kind, 255)));
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
  DeviceCallColumns& to = rows_.calls;
  const int64_t start_ns = time(entry.start_ns);
  const auto correlation = correlations_.find(entry.correlation);
  const bool has_token = correlation != correlations_.end();
  if (has_token) correlation->second.has_call = true;
  to.process.push_back(context_.process);
  to.os_thread_id.push_back(entry.os_thread_id);
  to.start_ns.push_back(start_ns);
  to.end_ns.push_back(std::max(start_ns, time(entry.end_ns)));
  to.name.push_back(context_.names.string(entry.name));
  to.correlation.push_back(entry.correlation == 0 ? -1 : int64_t{entry.correlation});
  to.return_code.push_back(entry.return_code);
  to.is_driver.push_back(entry.is_driver != 0);
  to.has_token.push_back(has_token);
  to.token_range.push_back(has_token ? row_of_token(correlation->second.token, start_ns) : -1);
}

void Rows::add(const tracer::DeviceMemoryEntry& entry) {
  DeviceMemoryColumns& to = rows_.memory;
  to.process.push_back(context_.process);
  to.device.push_back(static_cast<int32_t>(entry.device));
  to.time_ns.push_back(time(entry.time_ns));
  to.address.push_back(entry.address);
  to.pool.push_back(entry.pool);
  to.bytes.push_back(entry.is_release != 0 ? -bounded(entry.bytes) : bounded(entry.bytes));
  to.kind.push_back(static_cast<uint8_t>(std::min<uint32_t>(entry.memory_kind, 255)));
  to.correlation.push_back(entry.correlation == 0 ? -1 : int64_t{entry.correlation});
}

void Rows::add(const tracer::DevicePoolEntry& entry) {
  DevicePoolColumns& to = rows_.pools;
  to.process.push_back(context_.process);
  to.device.push_back(static_cast<int32_t>(entry.device));
  to.time_ns.push_back(time(entry.time_ns));
  to.address.push_back(entry.address);
  to.reserved_bytes.push_back(bounded(entry.reserved_bytes));
  to.used_bytes.push_back(bounded(entry.used_bytes));
  to.operation.push_back(static_cast<uint8_t>(std::min<uint32_t>(entry.operation, 255)));
}

void Rows::add(const tracer::DeviceOverheadEntry& entry) {
  const int64_t start_ns = time(entry.start_ns);
  rows_.overhead.process.push_back(context_.process);
  rows_.overhead.start_ns.push_back(start_ns);
  rows_.overhead.end_ns.push_back(std::max(start_ns, time(entry.end_ns)));
  rows_.overhead.kind.push_back(entry.overhead_kind);
}

void Rows::add(const tracer::DeviceDeviceEntry& entry) {
  DeviceDeviceColumns& to = rows_.devices;
  to.process.push_back(context_.process);
  to.name.push_back(context_.names.string(entry.name));
  to.id.push_back(entry.id);
  to.capability_major.push_back(entry.capability_major);
  to.capability_minor.push_back(entry.capability_minor);
  to.multiprocessors.push_back(entry.multiprocessors);
  to.warps_per_multiprocessor.push_back(entry.warps_per_multiprocessor);
  to.shared_bytes_per_multiprocessor.push_back(entry.shared_bytes_per_multiprocessor);
  to.core_clock_khz.push_back(entry.core_clock_khz);
  to.l2_bytes.push_back(entry.l2_bytes);
  to.memory_bytes.push_back(entry.memory_bytes);
  to.memory_bandwidth.push_back(entry.memory_bandwidth);
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
    return visit_entry(kind, bytes, size, [](const auto&) {});
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
