// Pooling forward: one thread per output element, or per pack of channels in NHWC, loops over its window.
// Overlapping windows hit in L1. Bottleneck: memory where windows do not overlap, L1 loads where they do (9
// per output of a 3x3 window).
#pragma once

#include "kernels/pool2d/cuda/problem.cuh"

namespace profkit::cuda {

template <class T, int kPack>
__global__ void __launch_bounds__(RowBlocks::kThreads, pool_blocks(kPack))
    pool2d_maximum(const PoolProblem problem, const T* x, T* y) {
  if (!problem.blocks.is_inside()) return;
  const PoolPlace place = PoolPlace::of<kPack>(problem);
  const PoolWindow window = problem.window(place.row, place.column);
  Pack<T, kPack> largest = load_pack<kPack>(x + place.x_at(window.top, window.left));
  for (int h = window.top; h < window.bottom; ++h) {
    const T* row = x + place.x_at(h, 0);
#pragma unroll 4
    for (int w = window.left; w < window.right; ++w) {
      const Pack<T, kPack> in = load_pack<kPack>(row + w * place.column_step);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float value = to_float(in.values[i]);
        const bool is_nan = value != value;  // propagates, as in the frameworks
        if (value > to_float(largest.values[i]) || is_nan) largest.values[i] = in.values[i];
      }
    }
  }
  store_pack(y + place.y_at(place.row, place.column), largest);
}

template <class T, int kPack>
__global__ void __launch_bounds__(RowBlocks::kThreads, pool_blocks(kPack))
    pool2d_average(const PoolProblem problem, const T* x, T* y) {
  if (!problem.blocks.is_inside()) return;
  const PoolPlace place = PoolPlace::of<kPack>(problem);
  const PoolWindow window = problem.window(place.row, place.column);
  float sums[kPack] = {};
  for (int h = window.top; h < window.bottom; ++h) {
    const T* row = x + place.x_at(h, 0);
#pragma unroll 4
    for (int w = window.left; w < window.right; ++w) {
      const Pack<T, kPack> in = load_pack<kPack>(row + w * place.column_step);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sums[i] += to_float(in.values[i]);
    }
  }
  const float share = 1.0f / window.elements();
  Pack<T, kPack> out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) out.values[i] = from_float<T>(sums[i] * share);
  store_pack(y + place.y_at(place.row, place.column), out);
}

}  // namespace profkit::cuda
