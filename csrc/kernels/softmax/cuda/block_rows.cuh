// Softmax of rows of any length: a block per row reads it twice, in packs. The first pass finds maximum and
// sum together ("online"): a sum is rescaled when a larger value comes. Bottleneck: memory, 8 bytes per
// element while the row stays in the caches between the passes, 12 beyond.
#pragma once

#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"

namespace profkit::cuda {

constexpr int kSoftmaxBlockThreads = 256;

// The largest value so far and the sum of exp(value - largest). It starts from the lowest finite number:
// with minus infinity the first differences would be NaN.
struct RunningSoftmax {
  float largest = Max::kNeutral;
  float sum = 0.0f;

  __device__ __forceinline__ void add(float value) {
    if (value > largest) {
      // value - value is 0, but NaN for an infinity, whose softmax is undefined.
      sum = sum * expf(largest - value) + (1.0f + (value - value));
      largest = value;
    } else {
      sum += expf(value - largest);
    }
  }
};

template <class T, int kPack>
__global__ void __launch_bounds__(kSoftmaxBlockThreads)
    softmax_block_rows(const int columns, const T* x, T* y) {
  PROFKIT_SHARED(float, maxima, [kWarpSize]);
  PROFKIT_SHARED(float, sums, [kWarpSize]);
  const int64_t start = static_cast<int64_t>(blockIdx.x) * columns;
  x += start;
  y += start;
  const int packs = columns / kPack;
  RunningSoftmax mine;
  for (int at = static_cast<int>(threadIdx.x); at < packs; at += kSoftmaxBlockThreads) {
    const Pack<T, kPack> in = load_pack<kPack>(x + at * kPack);
#pragma unroll
    for (int i = 0; i < kPack; ++i) mine.add(to_float(in.values[i]));
  }
  const float largest = block_reduce<Max, kSoftmaxBlockThreads>(mine.largest, maxima);
  const float sum = block_reduce<Sum, kSoftmaxBlockThreads>(mine.sum * expf(mine.largest - largest), sums);
  const float scale = 1.0f / sum;
  for (int at = static_cast<int>(threadIdx.x); at < packs; at += kSoftmaxBlockThreads) {
    const Pack<T, kPack> in = load_pack<kPack>(x + at * kPack);
    Pack<T, kPack> out;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      out.values[i] = from_float<T>(expf(to_float(in.values[i]) - largest) * scale);
    }
    store_pack(y + at * kPack, out);
  }
}

}  // namespace profkit::cuda
