// Sums and maxima over the lanes of a warp, or over a block, by shuffles: log2(width) exchanges between
// registers, then one trip through shared memory for the warps of a block. All lanes get the result. The
// order of additions is fixed, so that results repeat to the last bit.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

struct Sum {
  static constexpr float kNeutral = 0.0f;
  __device__ __forceinline__ static float together(float a, float b) { return a + b; }
};

// NaN is ignored; kNeutral is the lowest finite number, so that differences from it are never NaN.
struct Max {
  static constexpr float kNeutral = -3.402823466e+38f;
  __device__ __forceinline__ static float together(float a, float b) { return fmaxf(a, b); }
};

// Over each kWidth neighbouring lanes (a power of two); all 32 lanes of the warp must take part.
template <class Operation, int kWidth = kWarpSize>
__device__ __forceinline__ float warp_reduce(float value) {
  static_assert(kWidth <= kWarpSize && (kWidth & (kWidth - 1)) == 0);
#pragma unroll
  for (int distance = kWidth / 2; distance > 0; distance /= 2) {
    value = Operation::together(value, __shfl_xor_sync(kFullWarp, value, distance, kWidth));
  }
  return value;
}

// Over all kThreads threads of a block, each of which must arrive. `scratch` is in shared memory and in use
// until the last thread has left: call it a second time only after a barrier, or with other scratch.
template <class Operation, int kThreads>
__device__ __forceinline__ float block_reduce(float value, float (&scratch)[kWarpSize]) {
  static_assert(kThreads % kWarpSize == 0 && kThreads <= kWarpSize * kWarpSize);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize,
            warp = static_cast<int>(threadIdx.x) / kWarpSize;
  value = warp_reduce<Operation>(value);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  // Every warp adds up the warps' values itself: no second barrier to distribute the result.
  return warp_reduce<Operation>(lane < kThreads / kWarpSize ? scratch[lane] : Operation::kNeutral);
}

}  // namespace profkit::cuda
