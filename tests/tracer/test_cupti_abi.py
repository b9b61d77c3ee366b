"""Our declarations of CUPTI's binary interface, and the layouts of the double, against the real headers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.places import TRACER_NATIVE
from tests.tracer.abi import ASSERTIONS, compare, pairs, same_members, same_numbers, same_places

HEAD = rf"""
#include <cupti.h>
#include "tracer/cupti/abi.h"
#include "cupti_layouts.h"
{ASSERTIONS}
namespace own = profkit::tracer::cupti;
namespace at = cupti_layouts;
// Functions: assigning the real ones to ours would not compile where their kinds of arguments differ.
template <class Result, class... Arguments>
constexpr int arguments(Result (*)(Arguments...)) {{
  return sizeof...(Arguments);
}}
"""
NUMBERS = {
    "CUPTI_": """
        kSuccess=SUCCESS kMaxLimitReached=ERROR_MAX_LIMIT_REACHED kNotCompatible=ERROR_NOT_COMPATIBLE
        kInsufficientPrivileges=ERROR_INSUFFICIENT_PRIVILEGES
        kMultipleSubscribers=ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
        kVirtualisedInsufficientPrivileges=ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES
        kUnknownError=ERROR_UNKNOWN kExternalKindCustom2=EXTERNAL_CORRELATION_KIND_CUSTOM2
        kDriverDomain=CB_DOMAIN_DRIVER_API kRuntimeDomain=CB_DOMAIN_RUNTIME_API
        kSynchronizeDomain=CB_DOMAIN_SYNCHRONIZE
    """,
    "CUPTI_ACTIVITY_KIND_": """
        kMemcpy=MEMCPY kMemset=MEMSET kKernel=KERNEL kDriver=DRIVER kRuntime=RUNTIME kDevice=DEVICE
        kConcurrentKernel=CONCURRENT_KERNEL kOverhead=OVERHEAD kMemcpyPeer=MEMCPY2
        kExternalCorrelation=EXTERNAL_CORRELATION kMemory=MEMORY2 kMemoryPool=MEMORY_POOL
    """,
    "CUPTI_ACTIVITY_": """
        kFlushForced=FLAG_FLUSH_FORCED kThreadIdTypeSystem=THREAD_ID_TYPE_SYSTEM
        kMemoryRelease=MEMORY_OPERATION_TYPE_RELEASE kLocalPool=MEMORY_POOL_TYPE_LOCAL
    """,
    "ACTIVITY_": "kRecordAlignment=RECORD_ALIGNMENT",
}

# Ours, theirs of every version that we read, members of both; then what the double has: its layout and places there.
COPY = """
    copy_kind=copyKind source_kind=srcKind target_kind=dstKind bytes start end device_id=deviceId stream_id=streamId
    correlation_id=correlationId graph_node_id=graphNodeId graph_id=graphId
"""
RECORDS = [
    (
        "Kernel",
        "Kernel8 Kernel9 Kernel10",
        """
        registers_per_thread=registersPerThread start end device_id=deviceId context_id=contextId stream_id=streamId
        static_shared_memory=staticSharedMemory dynamic_shared_memory=dynamicSharedMemory
        correlation_id=correlationId name queued graph_node_id=graphNodeId graph_id=graphId
        """,
    ),
    ("Memcpy", "Memcpy5 Memcpy6", COPY),
    (
        "MemcpyPeer",
        "MemcpyPtoP3 MemcpyPtoP4",
        COPY + "source_device_id=srcDeviceId target_device_id=dstDeviceId",
    ),
    (
        "Memset",
        "Memset3 Memset4",
        "bytes end correlation_id=correlationId memory_kind=memoryKind graph_node_id=graphNodeId",
    ),
    (
        "Memory",
        "Memory3 Memory4",
        """
        operation=memoryOperationType memory_kind=memoryKind correlation_id=correlationId address bytes timestamp
        device_id=deviceId stream_id=streamId
        """,
    ),
    (
        "MemoryPool",
        "MemoryPool2 MemoryPool3",
        """
        operation=memoryPoolOperationType pool_type=memoryPoolType correlation_id=correlationId device_id=deviceId
        least_bytes_to_keep=minBytesToKeep address bytes=size release_threshold=releaseThreshold timestamp
        used_bytes=utilizedSize
        """,
    ),
    ("Api", "API", "callback_id=cbid start thread_id=threadId correlation_id=correlationId return_value=returnValue"),
    (
        "ExternalCorrelation",
        "ExternalCorrelation",
        "external_kind=externalKind external_id=externalId correlation_id=correlationId",
    ),
    ("Overhead", "Overhead Overhead3", "overhead_kind=overheadKind start end"),
    (
        "Device",
        "Device4 Device5",
        """
        memory_bandwidth=globalMemoryBandwidth memory_size=globalMemorySize l2_cache_size=l2CacheSize
        core_clock_rate=coreClockRate multiprocessors=numMultiprocessors
        warps_per_multiprocessor=maxWarpsPerMultiprocessor capability_major=computeCapabilityMajor id name
        """,
    ),
]
PLACES = [
    ("offsetof(own::Kernel, ", "Kernel8 Kernel9 Kernel10", "grid)=gridX block)=blockX"),
    (
        "offsetof(own::Memory, ",
        "Memory3 Memory4",
        """
        pool_type)=memoryPoolConfig.memoryPoolType pool_address)=memoryPoolConfig.address
        pool_release_threshold)=memoryPoolConfig.releaseThreshold pool_bytes)=memoryPoolConfig.pool.size
        pool_used_bytes)=memoryPoolConfig.utilizedSize
        """,
    ),
    (
        "offsetof(own::Device, ",
        "Device5",
        "shared_memory_per_multiprocessor)=maxSharedMemoryPerMultiprocessor",
    ),
    (
        "at::kernel::",
        "Kernel8 Kernel9 Kernel10",
        """
        registers=registersPerThread start stream=streamId grid=gridX block=blockX static_shared=staticSharedMemory
        correlation=correlationId name queued graph_node=graphNodeId graph=graphId
        """,
    ),
    (
        "at::copy::",
        "Memcpy5 Memcpy6 MemcpyPtoP3 MemcpyPtoP4",
        "copy_kind=copyKind bytes start device=deviceId",
    ),
    ("at::copy::", "Memcpy6", "correlation=correlationId graph_node=graphNodeId"),
    (
        "at::peer::",
        "MemcpyPtoP4",
        "correlation=correlationId graph_node=graphNodeId target_device=dstDeviceId",
    ),
    # Sets share what comes before with copies.
    (
        "at::copy::",
        "Memset3 Memset4",
        "bytes start end device=deviceId context=contextId stream=streamId correlation=correlationId",
    ),
    ("at::set::", "Memset3 Memset4", "memory_kind=memoryKind"),
    (
        "at::memory::",
        "Memory3 Memory4",
        """
        pool_bytes=memoryPoolConfig.pool.size pool_used=memoryPoolConfig.utilizedSize time=timestamp
        pool_address=memoryPoolConfig.address
        """,
    ),
    (
        "at::pool::",
        "MemoryPool2 MemoryPool3",
        """
        operation=memoryPoolOperationType pool_type=memoryPoolType correlation=correlationId device=deviceId
        kept=minBytesToKeep address bytes=size threshold=releaseThreshold time=timestamp used=utilizedSize
        """,
    ),
    ("at::api::", "API", "thread=threadId"),
    ("at::device::", "Device5", "warps=maxWarpsPerMultiprocessor shared_bytes=maxSharedMemoryPerMultiprocessor"),
]
# Sizes of the double's records, by the first CUPTI that writes them.
SIZES = [
    """
    kernel=Kernel8 memcpy=Memcpy5 peer=MemcpyPtoP3 memset=Memset3 memory=Memory3 pool=MemoryPool2 overhead=Overhead
    device=Device4
    """,
    "kernel=Kernel9 memcpy=Memcpy6 overhead=Overhead2",
    """
    kernel=Kernel10 memcpy=Memcpy6 peer=MemcpyPtoP4 memset=Memset4 memory=Memory4 pool=MemoryPool3 overhead=Overhead3
    device=Device5
    """,
]
FUNCTIONS = """
    get_version=GetVersion get_timestamp=GetTimestamp get_result_string=GetResultString
    get_callback_name=GetCallbackName subscribe=Subscribe unsubscribe=Unsubscribe enable_domain=EnableDomain
    register_callbacks=ActivityRegisterCallbacks enable=ActivityEnable disable=ActivityDisable
    flush_all=ActivityFlushAll get_next_record=ActivityGetNextRecord get_dropped=ActivityGetNumDroppedRecords
    push_external=ActivityPushExternalCorrelationId pop_external=ActivityPopExternalCorrelationId
    set_thread_id_type=SetThreadIdType
"""


def structs(names: str) -> str:
    return " ".join(f"CUpti_Activity{name}" for name in names.split())


def comparison() -> str:
    """C++ that compiles where everything is the same."""
    text = HEAD
    for prefix, words in NUMBERS.items():
        text += same_numbers("own::", prefix, words)
    for ours, theirs, members in RECORDS:
        text += "".join(f"WITHIN(own::{ours}, {struct});\n" for struct in structs(theirs).split())
        text += same_members(f"own::{ours}", structs(theirs), members)
    for places, theirs, members in PLACES:
        text += same_places(places, structs(theirs), members)
    sizes = [(f"at::kSizes[{i}].{ours}", theirs) for i, words in enumerate(SIZES) for ours, theirs in pairs(words)]
    for size, struct in [*sizes, ("at::kApi", "API"), ("at::kExternal", "ExternalCorrelation")]:
        text += f"SAME({size}, sizeof(CUpti_Activity{struct}));\n"
    text += "SAME_SIZE(own::Api, CUpti_ActivityAPI);\n"
    for ours, theirs in pairs(FUNCTIONS):
        text += f"SAME(arguments(decltype(own::Functions::{ours}){{}}), arguments(decltype(&cupti{theirs}){{}}));\n"
    return text


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
    compare(tmp_path, cupti_headers(), comparison(), "-Wno-invalid-offsetof", "-I", str(TRACER_NATIVE))
