// Decodes one activity buffer, record by record.
#include "tracer/cupti/records.h"

#include <atomic>
#include <cstring>
#include <string_view>

#include "tracer/core/names.h"
#include "tracer/cupti/watch.h"

namespace profkit::tracer {
namespace {

// "cudaLaunchKernel_v7000" is version 7.0 of cudaLaunchKernel.
std::string_view without_version(std::string_view name) {
  const size_t at = name.rfind("_v");
  if (at == std::string_view::npos || name.substr(0, 4) != "cuda") return name;
  const std::string_view digits = name.substr(at + 2);
  if (digits.size() < 4 || digits.find_first_not_of("0123456789") != std::string_view::npos) return name;
  return name.substr(0, at);
}

uint32_t name_of_call(const CuptiLibrary& library, uint32_t domain, uint32_t callback_id) {
  constexpr uint32_t kKnown = 2048;
  static std::atomic<uint32_t> known[2][kKnown];
  std::atomic<uint32_t>* const place =
      callback_id < kKnown ? &known[domain == cupti::kDriverDomain ? 1 : 0][callback_id] : nullptr;
  if (place != nullptr) {
    if (const uint32_t id = place->load(std::memory_order_relaxed)) return id;
  }
  const char* name = nullptr;
  const bool is_named =
      library.call.get_callback_name(domain, callback_id, &name) == cupti::kSuccess && name != nullptr;
  const uint32_t id = string_id_while_quiet(is_named ? without_version(name) : "(unknown call)");
  if (place != nullptr) place->store(id, std::memory_order_relaxed);
  return id;
}

class RecordDecoder {
 public:
  RecordDecoder(const CuptiLibrary& library, DeviceAppender& appender)
      : library_(library), appender_(appender) {}

  // `room`: bytes of the buffer from the record on.
  void decode(const uint8_t* record, size_t room) {
    uint32_t kind = 0;
    if (room < sizeof(kind)) return count(device_counts.cut);
    std::memcpy(&kind, record, sizeof(kind));
    switch (kind) {
      case cupti::kConcurrentKernel:
      case cupti::kKernel:
        return read<cupti::Kernel>(record, room);
      case cupti::kMemcpy:
        return read<cupti::Memcpy>(record, room);
      case cupti::kMemcpyPeer:
        return read<cupti::MemcpyPeer>(record, room);
      case cupti::kMemset:
        return read<cupti::Memset>(record, room);
      case cupti::kDriver:
      case cupti::kRuntime:
        return read<cupti::Api>(record, room);
      case cupti::kExternalCorrelation:
        return read<cupti::ExternalCorrelation>(record, room);
      case cupti::kMemory:
        return read<cupti::Memory>(record, room);
      case cupti::kMemoryPool:
        return read<cupti::MemoryPool>(record, room);
      case cupti::kOverhead:
        return read<cupti::Overhead>(record, room);
      case cupti::kDevice:
        return read<cupti::Device>(record, room);
      default:
        return count(device_counts.unknown);
    }
  }

 private:
  static void count(std::atomic<uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

  template <class Record>
  void read(const uint8_t* from, size_t room) {
    // sizeof may include padding after the last field, which every real record has as well.
    if (room < sizeof(Record)) return count(device_counts.cut);
    Record record;
    std::memcpy(&record, from, sizeof(record));
    convert(record);
  }

  // Work without an end was still going on when the buffer was forced out of CUPTI.
  template <class Record>
  bool has_run(const Record& record) {
    if (record.start != 0 && record.end >= record.start) return true;
    count(device_counts.unfinished);
    return false;
  }

  template <class Record>
  static DeviceWork work_of(const Record& record) {
    return {record.start,
            record.end,
            record.graph_node_id,
            record.graph_id,
            record.correlation_id,
            record.device_id,
            record.context_id,
            record.stream_id,
            0};
  }

  void convert(const cupti::Kernel& kernel) {
    if (!has_run(kernel)) return;
    DeviceKernelEntry entry{};
    entry.work = work_of(kernel);
    entry.queued_ns = kernel.queued;
    entry.name = string_id_while_quiet(kernel.name == nullptr ? "(unnamed kernel)" : kernel.name);
    entry.registers = kernel.registers_per_thread;
    std::memcpy(entry.grid, kernel.grid, sizeof(entry.grid));
    std::memcpy(entry.block, kernel.block, sizeof(entry.block));
    entry.static_shared_bytes = kernel.static_shared_memory;
    entry.dynamic_shared_bytes = kernel.dynamic_shared_memory;
    appender_.append(entry);
  }

  template <class Copy>
  void add_copy(const Copy& copy, uint32_t source_device, uint32_t target_device) {
    if (!has_run(copy)) return;
    DeviceCopyEntry entry{};
    entry.work = work_of(copy);
    entry.bytes = copy.bytes;
    entry.copy_kind = copy.copy_kind;
    entry.source_kind = copy.source_kind;
    entry.target_kind = copy.target_kind;
    entry.flags = copy.flags;
    entry.source_device = source_device;
    entry.target_device = target_device;
    appender_.append(entry);
  }
  void convert(const cupti::Memcpy& copy) { add_copy(copy, kNoDevice, kNoDevice); }
  void convert(const cupti::MemcpyPeer& copy) {
    add_copy(copy, copy.source_device_id, copy.target_device_id);
  }

  void convert(const cupti::Memset& set) {
    if (!has_run(set)) return;
    DeviceSetEntry entry{};
    entry.work = work_of(set);
    entry.bytes = set.bytes;
    entry.value = set.value;
    entry.memory_kind = set.memory_kind;
    entry.flags = set.flags;
    appender_.append(entry);
  }

  void convert(const cupti::Api& api) {
    const bool is_driver = api.kind == cupti::kDriver;
    cupti_call_records.fetch_add(1, std::memory_order_relaxed);
    DeviceCallEntry entry{};
    entry.start_ns = api.start;
    entry.end_ns = api.end;
    entry.correlation = api.correlation_id;
    entry.name =
        name_of_call(library_, is_driver ? cupti::kDriverDomain : cupti::kRuntimeDomain, api.callback_id);
    entry.os_thread_id = api.thread_id;
    entry.return_code = api.return_value;
    entry.is_driver = is_driver ? 1 : 0;
    entry.callback_id = api.callback_id;
    appender_.append(entry);
  }

  // Ids of other kinds are other tools' or the program's own.
  void convert(const cupti::ExternalCorrelation& correlation) {
    if (correlation.external_kind != cupti::kExternalKindCustom2) return;
    DeviceCorrelationEntry entry{};
    entry.range_token = correlation.external_id;
    entry.correlation = correlation.correlation_id;
    appender_.append(entry);
  }

  void convert(const cupti::Memory& memory) {
    DeviceMemoryEntry entry{};
    entry.time_ns = memory.timestamp;
    entry.address = memory.address;
    entry.bytes = memory.bytes;
    entry.pool = memory.pool_type == 0 ? 0 : memory.pool_address;
    entry.correlation = memory.correlation_id;
    entry.device = memory.device_id;
    entry.context = memory.context_id;
    entry.stream = memory.stream_id;
    entry.is_release = memory.operation == cupti::kMemoryRelease ? 1 : 0;
    entry.memory_kind = memory.memory_kind;
    appender_.append(entry);
    if (memory.pool_type == cupti::kLocalPool) add_pool_at_allocation(memory);
  }

  // Pools grow with allocations, of which CUPTI makes no record of the pool's own.
  void add_pool_at_allocation(const cupti::Memory& memory) {
    DevicePoolEntry entry{};
    entry.time_ns = memory.timestamp;
    entry.address = memory.pool_address;
    entry.reserved_bytes = memory.pool_bytes;
    entry.used_bytes = memory.pool_used_bytes;
    entry.release_threshold = memory.pool_release_threshold;
    entry.correlation = memory.correlation_id;
    entry.device = memory.device_id;
    appender_.append(entry);
  }

  void convert(const cupti::MemoryPool& pool) {
    const bool is_local = pool.pool_type == cupti::kLocalPool;  // the sizes of others are not known
    DevicePoolEntry entry{};
    entry.time_ns = pool.timestamp;
    entry.address = pool.address;
    entry.reserved_bytes = is_local ? pool.bytes : 0;
    entry.used_bytes = is_local ? pool.used_bytes : 0;
    entry.release_threshold = is_local ? pool.release_threshold : 0;
    entry.least_bytes_to_keep = pool.least_bytes_to_keep;
    entry.correlation = pool.correlation_id;
    entry.device = pool.device_id;
    entry.operation = pool.operation;
    appender_.append(entry);
  }

  void convert(const cupti::Overhead& overhead) {
    DeviceOverheadEntry entry{};
    entry.start_ns = overhead.start;
    entry.end_ns = overhead.end;
    entry.overhead_kind = overhead.overhead_kind;
    appender_.append(entry);
  }

  void convert(const cupti::Device& device) {
    DeviceDeviceEntry entry{};
    entry.memory_bytes = device.memory_size;
    entry.memory_bandwidth = device.memory_bandwidth;
    entry.id = device.id;
    entry.name = string_id_while_quiet(device.name == nullptr ? "(unnamed device)" : device.name);
    entry.capability_major = device.capability_major;
    entry.capability_minor = device.capability_minor;
    entry.multiprocessors = device.multiprocessors;
    entry.warps_per_multiprocessor = device.warps_per_multiprocessor;
    entry.shared_bytes_per_multiprocessor = device.shared_memory_per_multiprocessor;
    entry.core_clock_khz = device.core_clock_rate;
    entry.l2_bytes = device.l2_cache_size;
    appender_.append(entry);
  }

  const CuptiLibrary& library_;
  DeviceAppender& appender_;
};

}  // namespace

void decode_activity_buffer(const CuptiLibrary& library, uint8_t* buffer, size_t valid_bytes,
                            DeviceAppender& appender) {
  RecordDecoder decoder(library, appender);
  void* record = nullptr;
  while (library.call.get_next_record(buffer, valid_bytes, &record) == cupti::kSuccess) {
    const auto* const at = static_cast<const uint8_t*>(record);
    if (at < buffer || at >= buffer + valid_bytes) {
      device_counts.cut.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    decoder.decode(at, static_cast<size_t>(buffer + valid_bytes - at));
  }
}

}  // namespace profkit::tracer
