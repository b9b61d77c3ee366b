"""Our declarations of CUPTI's binary interface, and the layouts of the double, against the real headers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.places import TRACER_NATIVE
from tests.tracer.door_programs import compile_c

COMPARISON = r"""
#include <cupti.h>
#include <cstddef>
#include "tracer/cupti/abi.h"
#include "cupti_layouts.h"
namespace own = profkit::tracer::cupti;
namespace at = cupti_layouts;

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #ours)
#define WITHIN(Ours, Theirs) static_assert(sizeof(Ours) <= sizeof(Theirs), #Ours)
#define SAME_MEMBER(Ours, ours, Theirs, theirs)                                         \
  SAME(offsetof(Ours, ours), offsetof(Theirs, theirs));                                 \
  SAME(sizeof(static_cast<Ours*>(nullptr)->ours), sizeof(static_cast<Theirs*>(nullptr)->theirs))
#define AT(place, Theirs, theirs) SAME(place, offsetof(Theirs, theirs))

SAME(own::kSuccess, CUPTI_SUCCESS);
SAME(own::kMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(own::kNotCompatible, CUPTI_ERROR_NOT_COMPATIBLE);
SAME(own::kInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME(own::kMultipleSubscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(own::kVirtualisedInsufficientPrivileges, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
SAME(own::kUnknownError, CUPTI_ERROR_UNKNOWN);
SAME(own::kMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME(own::kMemset, CUPTI_ACTIVITY_KIND_MEMSET);
SAME(own::kKernel, CUPTI_ACTIVITY_KIND_KERNEL);
SAME(own::kDriver, CUPTI_ACTIVITY_KIND_DRIVER);
SAME(own::kRuntime, CUPTI_ACTIVITY_KIND_RUNTIME);
SAME(own::kDevice, CUPTI_ACTIVITY_KIND_DEVICE);
SAME(own::kConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME(own::kOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
SAME(own::kMemcpyPeer, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME(own::kExternalCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
SAME(own::kMemory, CUPTI_ACTIVITY_KIND_MEMORY2);
SAME(own::kMemoryPool, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
SAME(own::kExternalKindCustom2, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2);
SAME(own::kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME(own::kThreadIdTypeSystem, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME(own::kDriverDomain, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(own::kRuntimeDomain, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME(own::kSynchronizeDomain, CUPTI_CB_DOMAIN_SYNCHRONIZE);
SAME(own::kMemoryRelease, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
SAME(own::kLocalPool, CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL);
SAME(own::kRecordAlignment, ACTIVITY_RECORD_ALIGNMENT);

template <class Kernel>
struct CheckKernel {
  WITHIN(own::Kernel, Kernel);
  SAME_MEMBER(own::Kernel, registers_per_thread, Kernel, registersPerThread);
  SAME_MEMBER(own::Kernel, start, Kernel, start);
  SAME_MEMBER(own::Kernel, end, Kernel, end);
  SAME_MEMBER(own::Kernel, device_id, Kernel, deviceId);
  SAME_MEMBER(own::Kernel, context_id, Kernel, contextId);
  SAME_MEMBER(own::Kernel, stream_id, Kernel, streamId);
  AT(offsetof(own::Kernel, grid), Kernel, gridX);
  AT(offsetof(own::Kernel, block), Kernel, blockX);
  SAME_MEMBER(own::Kernel, static_shared_memory, Kernel, staticSharedMemory);
  SAME_MEMBER(own::Kernel, dynamic_shared_memory, Kernel, dynamicSharedMemory);
  SAME_MEMBER(own::Kernel, correlation_id, Kernel, correlationId);
  SAME_MEMBER(own::Kernel, name, Kernel, name);
  SAME_MEMBER(own::Kernel, queued, Kernel, queued);
  SAME_MEMBER(own::Kernel, graph_node_id, Kernel, graphNodeId);
  SAME_MEMBER(own::Kernel, graph_id, Kernel, graphId);
  AT(at::kernel::registers, Kernel, registersPerThread);
  AT(at::kernel::start, Kernel, start);
  AT(at::kernel::stream, Kernel, streamId);
  AT(at::kernel::grid, Kernel, gridX);
  AT(at::kernel::block, Kernel, blockX);
  AT(at::kernel::static_shared, Kernel, staticSharedMemory);
  AT(at::kernel::correlation, Kernel, correlationId);
  AT(at::kernel::name, Kernel, name);
  AT(at::kernel::queued, Kernel, queued);
  AT(at::kernel::graph_node, Kernel, graphNodeId);
  AT(at::kernel::graph, Kernel, graphId);
};
template struct CheckKernel<CUpti_ActivityKernel8>;
template struct CheckKernel<CUpti_ActivityKernel9>;
template struct CheckKernel<CUpti_ActivityKernel10>;

template <class Ours, class Theirs>
struct CheckCopy {
  WITHIN(Ours, Theirs);
  SAME_MEMBER(Ours, copy_kind, Theirs, copyKind);
  SAME_MEMBER(Ours, source_kind, Theirs, srcKind);
  SAME_MEMBER(Ours, target_kind, Theirs, dstKind);
  SAME_MEMBER(Ours, bytes, Theirs, bytes);
  SAME_MEMBER(Ours, start, Theirs, start);
  SAME_MEMBER(Ours, end, Theirs, end);
  SAME_MEMBER(Ours, device_id, Theirs, deviceId);
  SAME_MEMBER(Ours, stream_id, Theirs, streamId);
  SAME_MEMBER(Ours, correlation_id, Theirs, correlationId);
  SAME_MEMBER(Ours, graph_node_id, Theirs, graphNodeId);
  SAME_MEMBER(Ours, graph_id, Theirs, graphId);
  AT(at::copy::copy_kind, Theirs, copyKind);
  AT(at::copy::bytes, Theirs, bytes);
  AT(at::copy::start, Theirs, start);
  AT(at::copy::device, Theirs, deviceId);
};
template struct CheckCopy<own::Memcpy, CUpti_ActivityMemcpy5>;
template struct CheckCopy<own::Memcpy, CUpti_ActivityMemcpy6>;
template struct CheckCopy<own::MemcpyPeer, CUpti_ActivityMemcpyPtoP3>;
template struct CheckCopy<own::MemcpyPeer, CUpti_ActivityMemcpyPtoP4>;
SAME_MEMBER(own::MemcpyPeer, source_device_id, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME_MEMBER(own::MemcpyPeer, target_device_id, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
AT(at::copy::correlation, CUpti_ActivityMemcpy6, correlationId);
AT(at::copy::graph_node, CUpti_ActivityMemcpy6, graphNodeId);
AT(at::peer::correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
AT(at::peer::graph_node, CUpti_ActivityMemcpyPtoP4, graphNodeId);
AT(at::peer::target_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);

template <class Theirs>
struct CheckSet {
  WITHIN(own::Memset, Theirs);
  SAME_MEMBER(own::Memset, bytes, Theirs, bytes);
  SAME_MEMBER(own::Memset, end, Theirs, end);
  SAME_MEMBER(own::Memset, correlation_id, Theirs, correlationId);
  SAME_MEMBER(own::Memset, memory_kind, Theirs, memoryKind);
  SAME_MEMBER(own::Memset, graph_node_id, Theirs, graphNodeId);
  AT(at::set::memory_kind, Theirs, memoryKind);
  AT(at::set::correlation, Theirs, correlationId);
};
template struct CheckSet<CUpti_ActivityMemset3>;
template struct CheckSet<CUpti_ActivityMemset4>;

template <class Theirs>
struct CheckMemory {
  WITHIN(own::Memory, Theirs);
  SAME_MEMBER(own::Memory, operation, Theirs, memoryOperationType);
  SAME_MEMBER(own::Memory, memory_kind, Theirs, memoryKind);
  SAME_MEMBER(own::Memory, correlation_id, Theirs, correlationId);
  SAME_MEMBER(own::Memory, address, Theirs, address);
  SAME_MEMBER(own::Memory, bytes, Theirs, bytes);
  SAME_MEMBER(own::Memory, timestamp, Theirs, timestamp);
  SAME_MEMBER(own::Memory, device_id, Theirs, deviceId);
  SAME_MEMBER(own::Memory, stream_id, Theirs, streamId);
  AT(offsetof(own::Memory, pool_type), Theirs, memoryPoolConfig.memoryPoolType);
  AT(offsetof(own::Memory, pool_address), Theirs, memoryPoolConfig.address);
  AT(offsetof(own::Memory, pool_release_threshold), Theirs, memoryPoolConfig.releaseThreshold);
  AT(offsetof(own::Memory, pool_bytes), Theirs, memoryPoolConfig.pool.size);
  AT(offsetof(own::Memory, pool_used_bytes), Theirs, memoryPoolConfig.utilizedSize);
  AT(at::memory::pool_bytes, Theirs, memoryPoolConfig.pool.size);
  AT(at::memory::pool_used, Theirs, memoryPoolConfig.utilizedSize);
  AT(at::memory::time, Theirs, timestamp);
  AT(at::memory::pool_address, Theirs, memoryPoolConfig.address);
};
template struct CheckMemory<CUpti_ActivityMemory3>;
template struct CheckMemory<CUpti_ActivityMemory4>;

template <class Theirs>
struct CheckPool {
  WITHIN(own::MemoryPool, Theirs);
  SAME_MEMBER(own::MemoryPool, operation, Theirs, memoryPoolOperationType);
  SAME_MEMBER(own::MemoryPool, pool_type, Theirs, memoryPoolType);
  SAME_MEMBER(own::MemoryPool, correlation_id, Theirs, correlationId);
  SAME_MEMBER(own::MemoryPool, device_id, Theirs, deviceId);
  SAME_MEMBER(own::MemoryPool, least_bytes_to_keep, Theirs, minBytesToKeep);
  SAME_MEMBER(own::MemoryPool, address, Theirs, address);
  SAME_MEMBER(own::MemoryPool, bytes, Theirs, size);
  SAME_MEMBER(own::MemoryPool, release_threshold, Theirs, releaseThreshold);
  SAME_MEMBER(own::MemoryPool, timestamp, Theirs, timestamp);
  SAME_MEMBER(own::MemoryPool, used_bytes, Theirs, utilizedSize);
  AT(at::pool::operation, Theirs, memoryPoolOperationType);
  AT(at::pool::pool_type, Theirs, memoryPoolType);
  AT(at::pool::correlation, Theirs, correlationId);
  AT(at::pool::device, Theirs, deviceId);
  AT(at::pool::kept, Theirs, minBytesToKeep);
  AT(at::pool::address, Theirs, address);
  AT(at::pool::bytes, Theirs, size);
  AT(at::pool::threshold, Theirs, releaseThreshold);
  AT(at::pool::time, Theirs, timestamp);
  AT(at::pool::used, Theirs, utilizedSize);
};
template struct CheckPool<CUpti_ActivityMemoryPool2>;
template struct CheckPool<CUpti_ActivityMemoryPool3>;

SAME(sizeof(own::Api), sizeof(CUpti_ActivityAPI));
SAME_MEMBER(own::Api, callback_id, CUpti_ActivityAPI, cbid);
SAME_MEMBER(own::Api, start, CUpti_ActivityAPI, start);
SAME_MEMBER(own::Api, thread_id, CUpti_ActivityAPI, threadId);
SAME_MEMBER(own::Api, correlation_id, CUpti_ActivityAPI, correlationId);
SAME_MEMBER(own::Api, return_value, CUpti_ActivityAPI, returnValue);
AT(at::api::thread, CUpti_ActivityAPI, threadId);
WITHIN(own::ExternalCorrelation, CUpti_ActivityExternalCorrelation);
SAME_MEMBER(own::ExternalCorrelation, external_kind, CUpti_ActivityExternalCorrelation, externalKind);
SAME_MEMBER(own::ExternalCorrelation, external_id, CUpti_ActivityExternalCorrelation, externalId);
SAME_MEMBER(own::ExternalCorrelation, correlation_id, CUpti_ActivityExternalCorrelation, correlationId);
WITHIN(own::Overhead, CUpti_ActivityOverhead);
SAME_MEMBER(own::Overhead, overhead_kind, CUpti_ActivityOverhead3, overheadKind);
SAME_MEMBER(own::Overhead, start, CUpti_ActivityOverhead3, start);
SAME_MEMBER(own::Overhead, end, CUpti_ActivityOverhead, end);
WITHIN(own::Device, CUpti_ActivityDevice4);
SAME_MEMBER(own::Device, memory_bandwidth, CUpti_ActivityDevice5, globalMemoryBandwidth);
SAME_MEMBER(own::Device, memory_size, CUpti_ActivityDevice5, globalMemorySize);
SAME_MEMBER(own::Device, l2_cache_size, CUpti_ActivityDevice5, l2CacheSize);
SAME_MEMBER(own::Device, core_clock_rate, CUpti_ActivityDevice5, coreClockRate);
SAME_MEMBER(own::Device, multiprocessors, CUpti_ActivityDevice5, numMultiprocessors);
SAME_MEMBER(own::Device, warps_per_multiprocessor, CUpti_ActivityDevice5, maxWarpsPerMultiprocessor);
SAME_MEMBER(own::Device, capability_major, CUpti_ActivityDevice4, computeCapabilityMajor);
SAME_MEMBER(own::Device, id, CUpti_ActivityDevice4, id);
SAME_MEMBER(own::Device, name, CUpti_ActivityDevice4, name);
AT(at::device::warps, CUpti_ActivityDevice5, maxWarpsPerMultiprocessor);
AT(at::device::shared_bytes, CUpti_ActivityDevice5, maxSharedMemoryPerMultiprocessor);
SAME(offsetof(own::Device, shared_memory_per_multiprocessor), at::device::shared_bytes);

constexpr const at::Sizes& first = at::kSizes[0];
SAME(first.kernel, sizeof(CUpti_ActivityKernel8));
SAME(first.memcpy, sizeof(CUpti_ActivityMemcpy5));
SAME(first.peer, sizeof(CUpti_ActivityMemcpyPtoP3));
SAME(first.memset, sizeof(CUpti_ActivityMemset3));
SAME(first.memory, sizeof(CUpti_ActivityMemory3));
SAME(first.pool, sizeof(CUpti_ActivityMemoryPool2));
SAME(first.overhead, sizeof(CUpti_ActivityOverhead));
SAME(first.device, sizeof(CUpti_ActivityDevice4));
SAME(at::kSizes[1].kernel, sizeof(CUpti_ActivityKernel9));
SAME(at::kSizes[1].memcpy, sizeof(CUpti_ActivityMemcpy6));
SAME(at::kSizes[1].overhead, sizeof(CUpti_ActivityOverhead2));
constexpr const at::Sizes& thirteen = at::kSizes[2];
SAME(thirteen.kernel, sizeof(CUpti_ActivityKernel10));
SAME(thirteen.memcpy, sizeof(CUpti_ActivityMemcpy6));
SAME(thirteen.peer, sizeof(CUpti_ActivityMemcpyPtoP4));
SAME(thirteen.memset, sizeof(CUpti_ActivityMemset4));
SAME(thirteen.memory, sizeof(CUpti_ActivityMemory4));
SAME(thirteen.pool, sizeof(CUpti_ActivityMemoryPool3));
SAME(thirteen.overhead, sizeof(CUpti_ActivityOverhead3));
SAME(thirteen.device, sizeof(CUpti_ActivityDevice5));
SAME(at::kApi, sizeof(CUpti_ActivityAPI));
SAME(at::kExternal, sizeof(CUpti_ActivityExternalCorrelation));

// Functions: assigning the real ones to ours would not compile where their kinds of arguments differ in number.
template <class Ours, class... Theirs>
constexpr int arguments(Ours (*)(Theirs...)) {
  return sizeof...(Theirs);
}
template <class Ours, class... Theirs>
constexpr int own_arguments(Ours (*)(Theirs...)) {
  return sizeof...(Theirs);
}
#define SAME_CALL(ours, theirs) \
  static_assert(own_arguments(decltype(own::Functions::ours){}) == arguments(decltype(&theirs){}), #theirs)
SAME_CALL(get_version, cuptiGetVersion);
SAME_CALL(get_timestamp, cuptiGetTimestamp);
SAME_CALL(get_result_string, cuptiGetResultString);
SAME_CALL(get_callback_name, cuptiGetCallbackName);
SAME_CALL(subscribe, cuptiSubscribe);
SAME_CALL(unsubscribe, cuptiUnsubscribe);
SAME_CALL(enable_domain, cuptiEnableDomain);
SAME_CALL(register_callbacks, cuptiActivityRegisterCallbacks);
SAME_CALL(enable, cuptiActivityEnable);
SAME_CALL(disable, cuptiActivityDisable);
SAME_CALL(flush_all, cuptiActivityFlushAll);
SAME_CALL(get_next_record, cuptiActivityGetNextRecord);
SAME_CALL(get_dropped, cuptiActivityGetNumDroppedRecords);
SAME_CALL(push_external, cuptiActivityPushExternalCorrelationId);
SAME_CALL(pop_external, cuptiActivityPopExternalCorrelationId);
SAME_CALL(set_thread_id_type, cuptiSetThreadIdType);
"""


def cupti_headers() -> Path:
    """The folder with CUPTI's headers of CUDA 13.0, which declare the structs of CUDA 12 as well."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    for home in [*homes, "/usr/local/cuda"]:
        for folder in (Path(home) / "include", Path(home) / "extras" / "CUPTI" / "include"):
            activity = folder / "cupti_activity.h"
            if activity.exists() and "CUpti_ActivityKernel10;" in activity.read_text(errors="replace"):
                return folder
    pytest.skip("no CUPTI headers of CUDA 13.0 (cupti_activity.h) on this machine")


def test_our_cupti_layouts_and_those_of_the_double_are_the_real_ones(tmp_path: Path) -> None:
    folder = cupti_headers()
    flags = ("-std=c++17", "-c", "-Wno-invalid-offsetof", "-I", str(TRACER_NATIVE), "-isystem", str(folder))

    compiled = compile_c(tmp_path, COMPARISON, *flags, name="cupti_abi", suffix=".cpp")

    assert compiled.stat().st_size > 0
