// Gradients of pooling without atomics: one thread per input element (or pack of channels) gathers from the
// windows over it, always in the same order, so that results repeat to the last bit. A maximum needs the
// position it came from: a first kernel writes it for each window. Bottleneck: memory; for a maximum x, dy
// and dx once, the places written and read.
#pragma once

#include "kernels/pool2d/cuda/problem.cuh"

namespace profkit::cuda {

// The first place, row by row, of each window's maximum: h * width + w. A NaN is larger than every number.
template <class T, int kPack>
__global__ void __launch_bounds__(RowBlocks::kThreads, pool_blocks(kPack))
    pool2d_places_of_maxima(const PoolProblem problem, const T* x, int* places) {
  if (!problem.blocks.is_inside()) return;
  const PoolPlace place = PoolPlace::of<kPack>(problem);
  const PoolWindow window = problem.window(place.row, place.column);
  float largest[kPack];
  Pack<int, kPack> found;
  const Pack<T, kPack> corner = load_pack<kPack>(x + place.x_at(window.top, window.left));
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    largest[i] = to_float(corner.values[i]);
    found.values[i] = window.top * problem.width + window.left;
  }
  for (int h = window.top; h < window.bottom; ++h) {
    const T* row = x + place.x_at(h, 0);
#pragma unroll 4
    for (int w = window.left; w < window.right; ++w) {
      const Pack<T, kPack> in = load_pack<kPack>(row + w * place.column_step);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float value = to_float(in.values[i]);
        const bool is_first_nan = value != value && largest[i] == largest[i];
        if (value > largest[i] || is_first_nan) {
          largest[i] = value;
          found.values[i] = h * problem.width + w;
        }
      }
    }
  }
  store_pack(places + place.y_at(place.row, place.column), found);
}

// `places` is for a maximum only; an average gives every element of a window the same share.
template <class T, int kPack, bool kIsMaximum>
__global__ void __launch_bounds__(RowBlocks::kThreads, pool_blocks(kPack))
    pool2d_gather(const PoolProblem problem, const T* dy, const int* places, T* dx) {
  if (!problem.blocks.is_inside()) return;
  const PoolPlace place = PoolPlace::of<kPack>(problem);
  const WindowsOver rows(place.row, problem.pad_top, problem.kernel_h, problem.stride_h, problem.out_h);
  const WindowsOver columns(place.column, problem.pad_left, problem.kernel_w, problem.stride_w,
                            problem.out_w);
  const int here = place.row * problem.width + place.column;
  float sums[kPack] = {};
  for (int y = rows.first; y <= rows.last; ++y) {
#pragma unroll 4
    for (int x = columns.first; x <= columns.last; ++x) {
      const int64_t at = place.y_at(y, x);
      const Pack<T, kPack> in = load_pack<kPack>(dy + at);
      if constexpr (kIsMaximum) {
        const Pack<int, kPack> source = load_pack<kPack>(places + at);
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          if (source.values[i] == here) sums[i] += to_float(in.values[i]);
        }
      } else {
        const float share = 1.0f / problem.window(y, x).elements();
#pragma unroll
        for (int i = 0; i < kPack; ++i) sums[i] += to_float(in.values[i]) * share;
      }
    }
  }
  Pack<T, kPack> out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) out.values[i] = from_float<T>(sums[i]);
  store_pack(dx + place.x_at(place.row, place.column), out);
}

}  // namespace profkit::cuda
