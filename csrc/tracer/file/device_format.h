// GPU activity in a capture file: the payload of blocks of type 16 (docs/capture-format.md says the same in
// words). Entries are our own, not CUPTI's records, whose sizes change with its version. Times are
// nanoseconds of CUPTI's clock; 0 where CUPTI does not know one.
#pragma once

#include <cstdint>

#include "tracer/file/format.h"

namespace profkit::tracer {

enum class DeviceEntryKind : uint32_t {
  kernel = 1,
  copy = 2,
  set = 3,
  call = 4,
  correlation = 5,
  memory = 6,
  overhead = 7,
  device = 8,
  counts = 9,
  clock = 10,
  pool = 11,
};

// A reader skips kinds it does not know. An entry may be longer than the struct that this version knows.
struct DeviceEntryHeader {
  DeviceEntryKind kind;
  uint32_t bytes;  // of the whole entry with this header; a multiple of 8
};
static_assert(sizeof(DeviceEntryHeader) == 8);

// What kernels, copies and sets have in common.
struct DeviceWork {
  uint64_t start_ns, end_ns;
  uint64_t graph_node;  // with `correlation` it names one node of a replayed graph; 0: no graph
  uint32_t graph;
  uint32_t correlation;  // of the call that launched it
  uint32_t device, context, stream;
  uint32_t reserved;
};
static_assert(sizeof(DeviceWork) == 48);

struct DeviceKernelEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::kernel;
  DeviceEntryHeader header;
  DeviceWork work;
  uint64_t queued_ns;
  uint32_t name;  // string id of its name as the compiler made it
  uint32_t registers;
  int32_t grid[3], block[3];
  int32_t static_shared_bytes, dynamic_shared_bytes;
};
static_assert(sizeof(DeviceKernelEntry) == 104);

struct DeviceCopyEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::copy;
  DeviceEntryHeader header;
  DeviceWork work;
  uint64_t bytes;
  uint8_t copy_kind, source_kind, target_kind, flags;  // as CUPTI numbers them
  uint32_t source_device, target_device;               // of a copy between devices; kNoDevice
  uint32_t reserved;
};
static_assert(sizeof(DeviceCopyEntry) == 80);
constexpr uint32_t kNoDevice = ~0u;

struct DeviceSetEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::set;
  DeviceEntryHeader header;
  DeviceWork work;
  uint64_t bytes;
  uint32_t value;
  uint16_t memory_kind, flags;
};
static_assert(sizeof(DeviceSetEntry) == 72);

struct DeviceCallEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::call;
  DeviceEntryHeader header;
  uint64_t start_ns, end_ns;
  uint32_t correlation;
  uint32_t name;  // string id
  uint32_t os_thread_id;
  uint32_t return_code;
  uint32_t is_driver;  // 0: of the CUDA runtime
  uint32_t callback_id;
};
static_assert(sizeof(DeviceCallEntry) == 48);

// The call with this correlation was made inside the range with this token (ThreadRecorder::token_of).
struct DeviceCorrelationEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::correlation;
  DeviceEntryHeader header;
  uint64_t range_token;
  uint32_t correlation;
  uint32_t reserved;
};
static_assert(sizeof(DeviceCorrelationEntry) == 24);

struct DeviceMemoryEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::memory;
  DeviceEntryHeader header;
  uint64_t time_ns, address, bytes, pool;  // pool: its address; 0 none
  uint32_t correlation, device, context, stream;
  uint32_t is_release;
  uint32_t memory_kind;  // as CUPTI numbers them
};
static_assert(sizeof(DeviceMemoryEntry) == 64);

// How large a memory pool of the process is, when it is made, trimmed or destroyed, and when memory is taken
// from it or given back.
struct DevicePoolEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::pool;
  DeviceEntryHeader header;
  uint64_t time_ns, address;
  uint64_t reserved_bytes;  // of the device's memory; it is kept for the pool
  uint64_t used_bytes;      // of these, by allocations
  uint64_t release_threshold;
  uint64_t least_bytes_to_keep;  // of a trim
  uint32_t correlation, device;
  uint32_t operation;  // as CUPTI numbers them: 1 made, 2 destroyed, 3 trimmed; 0: an allocation or a free
  uint32_t reserved;
};
static_assert(sizeof(DevicePoolEntry) == 72);

struct DeviceOverheadEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::overhead;
  DeviceEntryHeader header;
  uint64_t start_ns, end_ns;
  uint32_t overhead_kind;  // as CUPTI numbers them
  uint32_t reserved;
};
static_assert(sizeof(DeviceOverheadEntry) == 32);

struct DeviceDeviceEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::device;
  DeviceEntryHeader header;
  uint64_t memory_bytes, memory_bandwidth;  // kB/s
  uint32_t id;
  uint32_t name;  // string id
  uint32_t capability_major, capability_minor;
  uint32_t multiprocessors, warps_per_multiprocessor;
  uint32_t shared_bytes_per_multiprocessor;
  uint32_t core_clock_khz, l2_bytes;
  uint32_t reserved;
};
static_assert(sizeof(DeviceDeviceEntry) == 64);

// Of the process so far: the last one counts.
struct DeviceCountsEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::counts;
  DeviceEntryHeader header;
  uint64_t dropped_by_cupti;  // CUPTI had no buffer for them
  uint64_t dropped_too_slow;  // the writer did not keep up
  uint64_t unknown_records;   // of kinds that this version does not decode
  uint64_t cut_records;       // shorter than their kind must be
  uint64_t unfinished;        // without an end: still running when the capture ended
};
static_assert(sizeof(DeviceCountsEntry) == 48);

// A pair of CUPTI's clock and CLOCK_MONOTONIC.
struct DeviceClockEntry {
  static constexpr DeviceEntryKind kKind = DeviceEntryKind::clock;
  DeviceEntryHeader header;
  uint64_t device_ns;  // CUPTI's clock
  int64_t monotonic_ns;
  int64_t uncertainty_ns;  // half of the time that taking the pair took
};
static_assert(sizeof(DeviceClockEntry) == 32);

}  // namespace profkit::tracer
