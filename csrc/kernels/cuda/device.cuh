// What every CUDA kernel header includes. Kernels are compiled in three ways: by nvcc for a GPU, by NVRTC (no
// standard headers) from CuPy or for candidates, and by a C++ compiler on the host SIMT layer of the tests
// (PROFKIT_EMULATED; tests/cuda/native/simt.h), where every thread of a block is a fiber. A fourth parses
// their structs and runs nothing (PROFKIT_LAYOUTS; structs.cpp). Hence the few macros below instead of bare
// `__shared__`: the emulator must see each array to check it.
#pragma once

#if defined(PROFKIT_EMULATED)
#include "simt.h"
#elif defined(PROFKIT_LAYOUTS)
#include "kernels/cuda/declarations.h"
#elif defined(__CUDACC_RTC__)
using int64_t = long long;
using uint64_t = unsigned long long;
using int32_t = int;
using uint32_t = unsigned;
using uint16_t = unsigned short;
#else
#include <stdint.h>
#endif

#if !defined(PROFKIT_EMULATED) && !defined(PROFKIT_LAYOUTS)
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// PROFKIT_SHARED(float, tile, [8][132]); an array in shared memory, aligned for 128-bit loads.
#define PROFKIT_SHARED(type, name, extent) __shared__ __align__(16) type name extent
// PROFKIT_DYNAMIC_SHARED(float, tiles): the launch's dynamic shared memory; once per kernel.
#define PROFKIT_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char profkit_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(profkit_dynamic_shared)
#endif

namespace profkit::cuda {

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kWarpSize = 32;

__host__ __device__ constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }

// 16-bit elements are converted to float for computation.
__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

}  // namespace profkit::cuda
