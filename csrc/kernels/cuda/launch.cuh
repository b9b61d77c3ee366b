// How host code starts kernels: `launch<kernel<...>>(geometry, call, arguments...)`. The same line starts a
// kernel on a GPU and, in tests, on the host SIMT layer, so that launch geometry and arguments are tested as
// they are.
#pragma once

#include "kernels/cuda/registry.h"

#if defined(PROFKIT_EMULATED)
#include "simt_launch.h"
#else
#include <cuda_runtime.h>
#endif

namespace profkit {

struct Geometry {
  dim3 grid, block;
  size_t dynamic_shared_bytes = 0;
};

inline dim3 dimensions(int64_t x, int64_t y = 1, int64_t z = 1) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
}
// A thread for each of `count` items, in blocks of `threads`.
inline Geometry linear_geometry(int64_t count, int threads) {
  return {dimensions((count + threads - 1) / threads), dimensions(threads)};
}

#if defined(PROFKIT_EMULATED)

template <auto kernel, class... Arguments>
void launch(const Geometry& geometry, const CudaCall& call, Arguments... arguments) {
  if (geometry.dynamic_shared_bytes > call.device.shared_bytes_per_block) {
    throw simt::Error("dynamic shared memory of " + std::to_string(geometry.dynamic_shared_bytes) +
                      " bytes; a block of the device can have " +
                      std::to_string(call.device.shared_bytes_per_block));
  }
  simt::start<kernel>(geometry.grid, geometry.block, geometry.dynamic_shared_bytes, arguments...);
}

inline void fill_zero(void* target, size_t bytes, const CudaCall&) { simt::fill_zero(target, bytes); }

#else

// Above this, dynamic shared memory must be requested for a kernel.
constexpr size_t kSharedBytesByDefault = 48 * 1024;

// Throws CudaError (runtime/cuda_device.h) with what was being done, unless the code is success.
void check_cuda(cudaError_t code, const char* doing);

template <auto kernel, class... Arguments>
void launch(const Geometry& geometry, const CudaCall& call, Arguments... arguments) {
  if (geometry.dynamic_shared_bytes > kSharedBytesByDefault) {
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(geometry.dynamic_shared_bytes)),
               "setting the limit of shared memory");
  }
  const auto stream = static_cast<cudaStream_t>(call.stream);
  // clang-format off: it takes the three brackets apart
  kernel<<<geometry.grid, geometry.block, geometry.dynamic_shared_bytes, stream>>>(arguments...);
  // clang-format on
  check_cuda(cudaGetLastError(), "launching a kernel");
}

inline void fill_zero(void* target, size_t bytes, const CudaCall& call) {
  check_cuda(cudaMemsetAsync(target, 0, bytes, static_cast<cudaStream_t>(call.stream)), "filling with zeros");
}

#endif

}  // namespace profkit
