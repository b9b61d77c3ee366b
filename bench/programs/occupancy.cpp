// Occupancy as CUDA's own calculator has it, without a device. Lines in: capability, registers per thread,
// static and dynamic shared bytes, threads per block; lines out: percent of the warps that a multiprocessor
// can hold.
#include <cuda_occupancy.h>

#include <cstdio>
#include <map>

namespace {

struct Limits {
  int threads_per_multiprocessor;
  size_t shared_per_multiprocessor, shared_per_block, shared_reserved;
};

constexpr size_t kKiB = 1024;
// CUDA programming guide, technical specifications per compute capability.
const std::map<int, Limits> kLimits{
    {75, {1024, 64 * kKiB, 64 * kKiB, 0}},      {80, {2048, 164 * kKiB, 163 * kKiB, kKiB}},
    {86, {1536, 100 * kKiB, 99 * kKiB, kKiB}},  {89, {1536, 100 * kKiB, 99 * kKiB, kKiB}},
    {90, {2048, 228 * kKiB, 227 * kKiB, kKiB}}, {100, {2048, 228 * kKiB, 227 * kKiB, kKiB}},
    {120, {1536, 100 * kKiB, 99 * kKiB, kKiB}},
};

cudaOccDeviceProp device_of(int capability, const Limits& limits) {
  cudaOccDeviceProp device;
  device.computeMajor = capability / 10;
  device.computeMinor = capability % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = limits.threads_per_multiprocessor;
  device.regsPerBlock = 65536;
  device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 * kKiB;
  device.sharedMemPerMultiprocessor = limits.shared_per_multiprocessor;
  device.numSms = 1;
  device.sharedMemPerBlockOptin = limits.shared_per_block;
  device.reservedSharedMemPerBlock = limits.shared_reserved;
  return device;
}

}  // namespace

int main() {
  int capability, registers, threads;
  size_t fixed_bytes, dynamic_bytes;
  while (std::scanf("%d %d %zu %zu %d", &capability, &registers, &fixed_bytes, &dynamic_bytes, &threads) ==
         5) {
    const auto limits = kLimits.find(capability);
    if (limits == kLimits.end()) {
      std::fprintf(stderr, "unknown compute capability %d\n", capability);
      return 1;
    }
    const cudaOccDeviceProp device = device_of(capability, limits->second);
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = fixed_bytes;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = limits->second.shared_per_block - fixed_bytes;
    kernel.numBlockBarriers = 1;
    const cudaOccDeviceState state;
    cudaOccResult result;
    const cudaOccError error =
        cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, dynamic_bytes);
    if (error != CUDA_OCC_SUCCESS) {
      std::fprintf(stderr, "the calculator refuses %d %d %zu %zu %d: %d\n", capability, registers,
                   fixed_bytes, dynamic_bytes, threads, error);
      return 1;
    }
    const int warps = result.activeBlocksPerMultiprocessor * ((threads + 31) / 32);
    std::printf("%.1f\n", 100.0 * warps * 32 / device.maxThreadsPerMultiprocessor);
  }
  return 0;
}
