// The part of CUPTI's binary interface that the collector uses, declared here so that no CUDA header is
// needed to build. Only the beginning of each record, which is the same in 12.1 to 13.4: a library writes its
// own latest struct, so records are never stepped over by a size, and nothing behind these fields is read.
// tests/tracer/test_cupti_abi.py has the compiler compare all of it with the real headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace profkit::tracer::cupti {

enum Result : int32_t {
  kSuccess = 0,
  kMaxLimitReached = 12,  // no further record in the buffer
  kNotCompatible = 14,
  kInsufficientPrivileges = 35,
  kMultipleSubscribers = 39,
  kVirtualisedInsufficientPrivileges = 40,
  kUnknownError = 999,
};

enum ActivityKind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kDevice = 8,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpyPeer = 22,  // CUPTI_ACTIVITY_KIND_MEMCPY2
  kExternalCorrelation = 39,
  kMemory = 49,  // CUPTI_ACTIVITY_KIND_MEMORY2
  kMemoryPool = 50,
};

// Not one of those that Kineto uses (0 and 1): its ids and ours must not be confused.
constexpr uint32_t kExternalKindCustom2 = 5;
constexpr uint32_t kFlushForced = 1;
constexpr uint32_t kThreadIdTypeSystem = 1;
constexpr uint32_t kDriverDomain = 1, kRuntimeDomain = 2, kSynchronizeDomain = 4;
constexpr uint32_t kMemoryRelease = 2;
constexpr uint32_t kLocalPool = 1;
constexpr size_t kRecordAlignment = 8;

struct Kernel {
  uint32_t kind;
  uint8_t cache_config, shared_memory_config;
  uint16_t registers_per_thread;
  uint32_t global_cache_requested, global_cache_executed;
  uint64_t start, end, completed;
  uint32_t device_id, context_id, stream_id;
  int32_t grid[3], block[3];
  int32_t static_shared_memory, dynamic_shared_memory;
  uint32_t local_memory_per_thread, local_memory_total;
  uint32_t correlation_id;
  int64_t grid_id;
  const char* name;
  void* reserved0;
  uint64_t queued, submitted;
  uint8_t launch_type, carveout_is_requested, carveout_requested, padding;
  uint32_t shared_memory_executed;
  uint64_t graph_node_id;
  uint32_t shared_memory_limit;
  uint32_t graph_id;
};

struct Memcpy {
  uint32_t kind;
  uint8_t copy_kind, source_kind, target_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device_id, context_id, stream_id, correlation_id;
  uint32_t runtime_correlation_id, padding;
  void* reserved0;
  uint64_t graph_node_id;
  uint32_t graph_id;
};

struct MemcpyPeer {
  uint32_t kind;
  uint8_t copy_kind, source_kind, target_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device_id, context_id, stream_id;
  uint32_t source_device_id, source_context_id, target_device_id, target_context_id;
  uint32_t correlation_id;
  void* reserved0;
  uint64_t graph_node_id;
  uint32_t graph_id;
};

struct Memset {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t device_id, context_id, stream_id, correlation_id;
  uint16_t flags, memory_kind;
  uint32_t padding;
  void* reserved0;
  uint64_t graph_node_id;
  uint32_t graph_id;
};

struct Api {
  uint32_t kind;
  uint32_t callback_id;
  uint64_t start, end;
  uint32_t process_id, thread_id, correlation_id, return_value;
};

struct ExternalCorrelation {
  uint32_t kind;
  uint32_t external_kind;
  uint64_t external_id;
  uint32_t correlation_id;
};

struct Memory {
  uint32_t kind;
  uint32_t operation, memory_kind;
  uint32_t correlation_id;
  uint64_t address, bytes, timestamp, program_counter;
  uint32_t process_id, device_id, context_id, stream_id;
  const char* name;
  uint32_t is_async, padding;
  uint32_t pool_type, pool_padding;
  uint64_t pool_address, pool_release_threshold;
  uint64_t pool_bytes, pool_used_bytes;  // of pools of this process
};

struct MemoryPool {
  uint32_t kind;
  uint32_t operation, pool_type;
  uint32_t correlation_id;
  uint32_t process_id, device_id;
  uint64_t least_bytes_to_keep;
  uint64_t address, bytes, release_threshold, timestamp;
  uint64_t used_bytes;
};

struct Overhead {
  uint32_t kind;
  uint32_t overhead_kind, object_kind;
  uint32_t object_id[3];
  uint64_t start, end;
};

struct Device {
  uint32_t kind;
  uint32_t flags;
  uint64_t memory_bandwidth, memory_size;
  uint32_t constant_memory_size, l2_cache_size, threads_per_warp, core_clock_rate;
  uint32_t memcpy_engines, multiprocessors, instructions_per_cycle, warps_per_multiprocessor;
  uint32_t blocks_per_multiprocessor, shared_memory_per_multiprocessor;
  uint32_t registers_per_multiprocessor, registers_per_block;
  uint32_t shared_memory_per_block, threads_per_block;
  uint32_t block_limit[3], grid_limit[3];
  uint32_t capability_major, capability_minor;
  uint32_t id;
  uint32_t ecc_is_enabled;
  uint8_t uuid[16];
  const char* name;
};

// Handles and records are opaque here.
using Subscriber = void*;
using BufferRequested = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes,
                                 size_t valid_bytes);
using Callback = void (*)(void* user_data, uint32_t domain, uint32_t callback_id, const void* data);

// The functions, by the names they have in the library.
struct Functions {
  int32_t (*get_version)(uint32_t* version);
  int32_t (*get_timestamp)(uint64_t* timestamp);
  int32_t (*get_result_string)(int32_t result, const char** text);
  int32_t (*get_callback_name)(uint32_t domain, uint32_t callback_id, const char** name);
  int32_t (*subscribe)(Subscriber* subscriber, Callback callback, void* user_data);
  int32_t (*unsubscribe)(Subscriber subscriber);
  int32_t (*enable_domain)(uint32_t enable, Subscriber subscriber, uint32_t domain);
  int32_t (*register_callbacks)(BufferRequested requested, BufferCompleted completed);
  int32_t (*enable)(uint32_t kind);
  int32_t (*disable)(uint32_t kind);
  int32_t (*flush_all)(uint32_t flag);
  int32_t (*get_next_record)(uint8_t* buffer, size_t valid_bytes, void** record);
  int32_t (*get_dropped)(void* context, uint32_t stream, size_t* count);
  int32_t (*push_external)(uint32_t kind, uint64_t id);
  int32_t (*pop_external)(uint32_t kind, uint64_t* last);
  int32_t (*set_thread_id_type)(uint32_t type);
};

}  // namespace profkit::tracer::cupti
