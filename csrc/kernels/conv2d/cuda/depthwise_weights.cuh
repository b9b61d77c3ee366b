// The weight gradient of a depthwise convolution: for every filter a sum over all output positions. A block
// has one filter (NCHW: threads along positions) or 32 neighbouring ones (NHWC: lanes along channels, warps
// along positions); a filter of known size is summed up in registers, of other sizes a block has one tap. The
// positions are split between blocks, whose sums a second kernel adds up in a fixed order.
#pragma once

#include "kernels/conv2d/cuda/add_splits.cuh"
#include "kernels/conv2d/cuda/gather.cuh"
#include "kernels/conv2d/cuda/problem.cuh"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/reduce.cuh"

namespace profkit::cuda {

constexpr int kDepthwiseSumThreads = 256;

struct DepthwiseSum {
  ConvProblem conv;
  int positions, positions_per_split;
  GatherImage source, gradient;
  FastDivide by_multiplier, by_plane, by_out_w, by_kernel_w;
};

// Over the threads of the block that have the same filter; right for the first of them.
template <bool kNhwc>
__device__ __forceinline__ float add_positions(float value, float (&scratch)[kDepthwiseSumThreads]) {
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (!kNhwc) value = warp_reduce<Sum>(value);
  __syncthreads();  // the scratch of the sum before has been read
  scratch[thread] = value;
  __syncthreads();
  float sum = 0.0f;
  if (kNhwc ? thread < kWarpSize : thread == 0) {
    for (int other = thread; other < kDepthwiseSumThreads; other += kWarpSize) sum += scratch[other];
  }
  return sum;
}

template <int kSize, bool kNhwc>
__global__ void __launch_bounds__(kDepthwiseSumThreads)
    conv2d_depthwise_weights(const DepthwiseSum problem, const float* source, const float* gradient,
                             float* target) {
  constexpr int kSide = kSize > 0 ? kSize : 1, kTaps = kSide * kSide;
  constexpr int kFilters = kNhwc ? kWarpSize : 1, kPositions = kDepthwiseSumThreads / kFilters;
  PROFKIT_SHARED(float, scratch, [kDepthwiseSumThreads]);
  const ConvProblem& conv = problem.conv;
  const int thread = static_cast<int>(threadIdx.x);
  const int filter = static_cast<int>(blockIdx.x) * kFilters + thread % kFilters;
  const int known = min(filter, conv.out_channels - 1);  // lanes after the last filter repeat it
  int r_first = 0, s_first = 0;
  if constexpr (kSize == 0) r_first = problem.by_kernel_w.split(static_cast<int>(blockIdx.y), s_first);
  const float* const image = source + problem.source.offset(0, problem.by_multiplier.quotient(known), 0, 0);
  gradient += problem.gradient.offset(0, known, 0, 0);

  float sums[kTaps] = {};
  const int first = static_cast<int>(blockIdx.z) * problem.positions_per_split;
  const int end = min(first + problem.positions_per_split, problem.positions);
#pragma unroll 1
  for (int at = first + thread / kFilters; at < end; at += kPositions) {
    int in_plane, x;
    const int n = problem.by_plane.split(at, in_plane), y = problem.by_out_w.split(in_plane, x);
    const float value = __ldg(gradient + problem.gradient.offset(n, 0, y, x));
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      // A branch per row: with all loads in flight at once, registers would spill.
      const int h = conv.input_row(y, r_first + r);
      if (static_cast<unsigned>(h) >= static_cast<unsigned>(conv.height)) continue;
      const float* const row = image + problem.source.offset(n, 0, h, 0);
#pragma unroll
      for (int s = 0; s < kSide; ++s) {
        const int w = conv.input_column(x, s_first + s);
        const bool is_inside = static_cast<unsigned>(w) < static_cast<unsigned>(conv.width);
        sums[r * kSide + s] += value * (is_inside ? __ldg(row + w * problem.source.column_step) : 0.0f);
      }
    }
  }

  const int area = conv.kernel_h * conv.kernel_w;
  target += static_cast<int64_t>(blockIdx.z) * conv.out_channels * area;
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) {
    const float sum = add_positions<kNhwc>(sums[tap], scratch);
    const bool is_first = thread < kFilters && filter < conv.out_channels;
    if (is_first) target[filter * area + r_first * conv.kernel_w + s_first + tap] = sum;
  }
}

}  // namespace profkit::cuda
