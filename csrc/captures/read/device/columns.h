// What GPUs did, as columns: a part of Capture. Numbers that CUPTI gives (kinds of copies, of memory, of
// overhead) are kept as they are; device_capture.py gives them their names.
#pragma once

#include <cstdint>
#include <vector>

#include "captures/members.h"

namespace profkit::captures {

enum class DeviceActivityKind : uint8_t { kernel = 0, copy = 1, set = 2 };  // as ActivityKind in schema.py

// Rows are in the order of the file: grouped by process, not sorted by time.
struct DeviceActivityColumns {
  std::vector<uint8_t> kind;
  std::vector<int32_t> process, device;
  std::vector<int64_t> context, stream;
  std::vector<int64_t> start_ns, end_ns, queued_ns;  // queued_ns -1: not known
  std::vector<int32_t> name;                         // strings; of kernels, else -1
  std::vector<int64_t> correlation, graph_node;      // -1 none
  std::vector<int64_t> bytes;                        // -1 for kernels
  std::vector<uint8_t> copy_kind, source_kind, target_kind;
  std::vector<int32_t> grid_x, grid_y, grid_z, block_x, block_y, block_z;  // -1 but for kernels; so the rest
  std::vector<int32_t> registers, static_shared_bytes, dynamic_shared_bytes;

  PROFKIT_MEMBERS(kind, process, device, context, stream, start_ns, end_ns, queued_ns, name, correlation,
                  graph_node, bytes, copy_kind, source_kind, target_kind, grid_x, grid_y, grid_z, block_x,
                  block_y, block_z, registers, static_shared_bytes, dynamic_shared_bytes)
};

struct DeviceCallColumns {
  std::vector<int32_t> process;
  std::vector<uint64_t> os_thread_id;
  std::vector<int64_t> start_ns, end_ns;
  std::vector<int32_t> name;  // strings
  std::vector<int64_t> correlation, return_code;
  std::vector<uint8_t> is_driver;
  std::vector<uint8_t> has_token;    // a range was pushed to CUPTI
  std::vector<int32_t> token_range;  // that range's row; -1 none, or not in the file

  PROFKIT_MEMBERS(process, os_thread_id, start_ns, end_ns, name, correlation, return_code, is_driver,
                  has_token, token_range)
};

struct DeviceMemoryColumns {
  std::vector<int32_t> process, device;
  std::vector<int64_t> time_ns;
  std::vector<uint64_t> address, pool;
  std::vector<int64_t> bytes;  // negative: freed
  std::vector<uint8_t> kind;
  std::vector<int64_t> correlation;

  PROFKIT_MEMBERS(process, device, time_ns, address, pool, bytes, kind, correlation)
};

// The sizes of memory pools over time.
struct DevicePoolColumns {
  std::vector<int32_t> process, device;
  std::vector<int64_t> time_ns;
  std::vector<uint64_t> address;
  std::vector<int64_t> reserved_bytes, used_bytes;
  std::vector<uint8_t> operation;  // as CUPTI numbers them; 0: an allocation or a free

  PROFKIT_MEMBERS(process, device, time_ns, address, reserved_bytes, used_bytes, operation)
};

struct DeviceOverheadColumns {
  std::vector<int32_t> process;
  std::vector<int64_t> start_ns, end_ns;
  std::vector<uint32_t> kind;

  PROFKIT_MEMBERS(process, start_ns, end_ns, kind)
};

struct DeviceDeviceColumns {
  std::vector<int32_t> process, name;  // strings
  std::vector<uint32_t> id, capability_major, capability_minor, multiprocessors, warps_per_multiprocessor,
      shared_bytes_per_multiprocessor, core_clock_khz, l2_bytes;
  std::vector<uint64_t> memory_bytes, memory_bandwidth;

  PROFKIT_MEMBERS(process, name, id, capability_major, capability_minor, multiprocessors,
                  warps_per_multiprocessor, shared_bytes_per_multiprocessor, core_clock_khz, l2_bytes,
                  memory_bytes, memory_bandwidth)
};

// Of one process; zeros where nothing of a GPU was recorded.
struct DeviceCounts {
  uint64_t entries = 0;
  uint64_t dropped_by_cupti = 0, dropped_too_slow = 0, unknown_records = 0, cut_records = 0, unfinished = 0;
  uint64_t correlations_without_call = 0;
  int64_t clock_error_ns = -1;  // -1: no pair of clocks, so no times
  uint64_t clock_steps = 0;     // CUPTI's clock was set while it was recorded

  PROFKIT_MEMBERS(entries, dropped_by_cupti, dropped_too_slow, unknown_records, cut_records, unfinished,
                  correlations_without_call, clock_error_ns, clock_steps)
};

struct DeviceColumns {
  DeviceActivityColumns activities;
  DeviceCallColumns calls;
  DeviceMemoryColumns memory;
  DevicePoolColumns pools;
  DeviceOverheadColumns overhead;
  DeviceDeviceColumns devices;

  PROFKIT_MEMBERS(activities, calls, memory, pools, overhead, devices)
};

}  // namespace profkit::captures
