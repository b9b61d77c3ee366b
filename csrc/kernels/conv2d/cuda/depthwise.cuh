// Depthwise convolution: every input channel has filters of its own, and there is no sum over channels that a
// matrix product could be made of. A thread computes a strip of results down a column, so that a filter of
// known size stays in registers and a row of the image is read once for all results of the strip that it
// meets. Bound by memory. Adjacent lanes access adjacent memory: along a row (NCHW) or along channels (NHWC).
#pragma once

#include "kernels/conv2d/cuda/gather.cuh"
#include "kernels/conv2d/cuda/problem.cuh"
#include "kernels/cuda/fast_divide.cuh"

namespace profkit::cuda {

constexpr int kDepthwiseThreads = 256;
// Results of a thread; without known sizes nothing is shared between them.
__host__ __device__ constexpr int depthwise_strip(int size) { return size > 0 ? 4 : 1; }

struct DepthwiseProblem {
  ConvProblem conv;
  int is_gradient;
  int terms;             // filters that meet in a result: 1, or in the gradient those of the channel
  int first_h, first_w;  // source row and column of tap 0 of result 0, where taps go upward
  int64_t units;         // strips of all images and channels: one thread each
  GatherImage source, target;
  FastDivide by_multiplier, by_channels, by_width, by_strips, by_stride_h, by_stride_w;

  // What the unit is: returns the image.
  __device__ __forceinline__ int unit(int at, int& channel, int& strip, int& x) const {
    if (conv.is_nhwc) {
      return by_strips.split(by_width.split(by_channels.split(at, channel), x), strip);
    }
    return by_channels.split(by_strips.split(by_width.split(at, x), strip), channel);
  }
  // The source's channel for a term of a result, and the filter through which they meet.
  __device__ __forceinline__ int source_channel(int channel, int term, int& filter) const {
    filter = is_gradient ? channel * terms + term : channel;
    return is_gradient ? filter : by_multiplier.quotient(channel);
  }
  __device__ __forceinline__ float value(const float* image, int h, int w) const {
    const bool is_inside = static_cast<unsigned>(h) < static_cast<unsigned>(source.height) &&
                           static_cast<unsigned>(w) < static_cast<unsigned>(source.width);
    return is_inside ? __ldg(image + h * source.row_step + w * source.column_step) : 0.0f;
  }
};

__device__ __forceinline__ int64_t depthwise_unit() {
  return static_cast<int64_t>(blockIdx.x) * kDepthwiseThreads + threadIdx.x;
}

// Filters of kSize x kSize without dilation; gradients are the same with rotated filters where the stride
// is 1.
template <int kSize, int kStride>
__global__ void __launch_bounds__(kDepthwiseThreads)
    conv2d_depthwise(const DepthwiseProblem problem, const float* source, const float* weights,
                     const float* bias, float* target) {
  constexpr int kStrip = depthwise_strip(kSize), kRows = (kStrip - 1) * kStride + kSize;
  if (depthwise_unit() >= problem.units) return;
  int channel, strip, x;
  const int n = problem.unit(static_cast<int>(depthwise_unit()), channel, strip, x);
  const int y_first = strip * kStrip;
  const int h_first = problem.first_h + y_first * kStride, w_first = problem.first_w + x * kStride;
  float sums[kStrip] = {};
  for (int term = 0; term < problem.terms; ++term) {
    int filter;
    const float* const image =
        source + problem.source.offset(n, problem.source_channel(channel, term, filter), 0, 0);
    float taps[kSize * kSize];
#pragma unroll
    for (int tap = 0; tap < kSize * kSize; ++tap) {
      taps[tap] =
          __ldg(weights + filter * kSize * kSize + (problem.is_gradient ? kSize * kSize - 1 - tap : tap));
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      // A branch per row: with all loads in flight at once, registers would spill.
      if (static_cast<unsigned>(h_first + i) >= static_cast<unsigned>(problem.source.height)) continue;
      const float* const row = image + (h_first + i) * problem.source.row_step;
#pragma unroll
      for (int s = 0; s < kSize; ++s) {
        const bool is_inside =
            static_cast<unsigned>(w_first + s) < static_cast<unsigned>(problem.source.width);
        const float value = is_inside ? __ldg(row + (w_first + s) * problem.source.column_step) : 0.0f;
#pragma unroll
        for (int j = 0; j < kStrip; ++j) {
          const int r = i - j * kStride;
          if (r >= 0 && r < kSize) sums[j] += taps[r * kSize + s] * value;
        }
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kStrip; ++j) {
    if (y_first + j >= problem.target.height) continue;
    target[problem.target.offset(n, channel, y_first + j, x)] = problem.conv.finished(sums[j], bias, channel);
  }
}

// Any filter, stride and dilation.
template <bool kGradient>
__global__ void __launch_bounds__(kDepthwiseThreads)
    conv2d_depthwise_any(const DepthwiseProblem problem, const float* source, const float* weights,
                         const float* bias, float* target) {
  if (depthwise_unit() >= problem.units) return;
  int channel, y, x;
  const int n = problem.unit(static_cast<int>(depthwise_unit()), channel, y, x);
  const ConvProblem& conv = problem.conv;
  float sum = 0.0f;
  for (int term = 0; term < problem.terms; ++term) {
    int filter;
    const float* const image =
        source + problem.source.offset(n, problem.source_channel(channel, term, filter), 0, 0);
    for (int r = 0; r < conv.kernel_h; ++r) {
      int h = conv.input_row(y, r);
      if constexpr (kGradient) {
        // Only an output row that read this input row through r: the stride divides the way to it.
        const int way = y + conv.pad_top - r * conv.dilation_h;
        int rest;
        h = way < 0 ? -1 : problem.by_stride_h.split(way, rest);
        if (way < 0 || rest != 0) continue;
      }
      for (int s = 0; s < conv.kernel_w; ++s) {
        int w = conv.input_column(x, s);
        if constexpr (kGradient) {
          const int way = x + conv.pad_left - s * conv.dilation_w;
          int rest;
          w = way < 0 ? -1 : problem.by_stride_w.split(way, rest);
          if (way < 0 || rest != 0) continue;
        }
        sum += problem.value(image, h, w) * __ldg(weights + conv.weight_at(filter, 0, r, s));
      }
    }
  }
  target[problem.target.offset(n, channel, y, x)] = conv.finished(sum, bias, channel);
}

}  // namespace profkit::cuda
