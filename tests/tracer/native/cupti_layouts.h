// Activity records as libraries of several CUDA versions write them: sizes by version, and where fields
// stand, in numbers of their own, so that the collector's structs are tested against something else than
// themselves. test_cupti_abi.py compares those of 12 and 13.0 with the real headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cupti_layouts {

struct Sizes {
  uint32_t version;  // the first that writes these
  size_t kernel, memcpy, peer, memset, memory, pool, overhead, device;
};
constexpr Sizes kSizes[] = {
    // 12.0: Kernel8, Memcpy5, MemcpyPtoP3, Memset3, Memory3, MemoryPool2, Overhead, Device4
    {18, 200, 88, 88, 80, 120, 72, 40, 176},
    // 12.9: Kernel9, Memcpy6, Overhead2, Device5
    {27, 208, 96, 88, 80, 120, 72, 48, 184},
    // 13.0: Kernel10, Memcpy6, MemcpyPtoP4, Memset4, Memory4, MemoryPool3, Overhead3
    {130000, 216, 96, 96, 88, 128, 80, 56, 184},
    // 13.4: Kernel13, Memcpy7
    {130400, 248, 112, 96, 88, 128, 80, 56, 184},
};
constexpr size_t kApi = 40, kExternal = 24;

constexpr const Sizes& sizes_of(uint32_t version) {
  const Sizes* found = kSizes;
  for (const Sizes& sizes : kSizes) {
    if (sizes.version <= version) found = &sizes;
  }
  return *found;
}

namespace kernel {
constexpr size_t registers = 6, start = 16, end = 24, device = 40, context = 44, stream = 48, grid = 52,
                 block = 64, static_shared = 76, dynamic_shared = 80, correlation = 92, name = 104,
                 queued = 120, graph_node = 144, graph = 156;
}
namespace copy {
constexpr size_t copy_kind = 4, source_kind = 5, target_kind = 6, bytes = 8, start = 16, end = 24,
                 device = 32, context = 36, stream = 40, correlation = 44, graph_node = 64, graph = 72;
}
namespace peer {
constexpr size_t source_device = 44, target_device = 52, correlation = 60, graph_node = 72, graph = 80;
}
namespace set {  // and the places of copies
constexpr size_t value = 4, flags = 48, memory_kind = 50;
}
namespace api {
constexpr size_t callback = 4, start = 8, end = 16, process = 24, thread = 28, correlation = 32, result = 36;
}
namespace external {
constexpr size_t external_kind = 4, id = 8, correlation = 16;
}
namespace memory {
constexpr size_t operation = 4, memory_kind = 8, correlation = 12, address = 16, bytes = 24, time = 32,
                 process = 48, device = 52, context = 56, stream = 60, name = 64, pool_type = 80,
                 pool_address = 88, pool_threshold = 96, pool_bytes = 104, pool_used = 112;
}
namespace pool {
constexpr size_t operation = 4, pool_type = 8, correlation = 12, process = 16, device = 20, kept = 24,
                 address = 32, bytes = 40, threshold = 48, time = 56, used = 64;
}
namespace overhead {
constexpr size_t overhead_kind = 4, start = 24, end = 32;
}
namespace device {
constexpr size_t bandwidth = 8, memory_bytes = 16, l2_bytes = 28, clock_khz = 36, multiprocessors = 44,
                 warps = 52, shared_bytes = 60, capability_major = 104, capability_minor = 108, id = 112,
                 name = 136;
}

}  // namespace cupti_layouts
