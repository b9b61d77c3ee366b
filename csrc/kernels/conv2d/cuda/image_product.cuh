// Forward convolution and input gradient as one problem: every result position sums taps of a source image
// that lie at linear coordinates. With stride > 1 the gradient falls into phases: input positions that are
// equal modulo the stride meet the same subset of taps, and within a phase neither stride nor holes are left.
#pragma once

#include "kernels/conv2d/cuda/gather.cuh"
#include "kernels/conv2d/cuda/problem.cuh"
#include "kernels/cuda/fast_divide.cuh"

namespace profkit::cuda {

// One axis of one phase. Tap q of `taps` is filter row first_tap + q * tap_step; position i of `count` reads
// source row source_first + i * source_step + q * source_tap_step and is target row target_first + i *
// target_step.
struct AxisPhase {
  int count, taps, first_tap, tap_step;
  int source_first, source_step, source_tap_step;
  int target_first, target_step;
};

__host__ __device__ inline AxisPhase forward_axis(int out, int kernel, int stride, int pad, int dilation) {
  return {out, kernel, 0, 1, -pad, stride, dilation, 0, 1};
}

// Input row h takes part through filter row r where h + pad - r * dilation is a multiple of the stride.
__host__ __device__ inline AxisPhase gradient_axis(int phase, int size, int kernel, int stride, int pad,
                                                   int dilation) {
  int common = dilation, rest = stride;  // greatest common divisor
  while (rest != 0) {
    const int next = common % rest;
    common = rest;
    rest = next;
  }
  const int tap_step = stride / common;
  int first = 0;
  while (first < tap_step && (phase + pad - first * dilation) % stride != 0) ++first;
  const int taps = first < tap_step && first < kernel ? (kernel - 1 - first) / tap_step + 1 : 0;
  const int count = phase < size ? (size - 1 - phase) / stride + 1 : 0;
  const int source_first = taps > 0 ? (phase + pad - first * dilation) / stride : 0;
  return {count, taps, first, tap_step, source_first, 1, -(dilation / common), phase, stride};
}

struct ImageProduct {
  ConvProblem conv;
  int is_gradient;
  int channels, results;  // summed over and produced, per group
  FastDivide by_channels;
  int phases_h, phases_w;  // 1 in the forward direction
  int depth_rows;          // rows of packed weights per phase and group, one slice more than are used
  int packed_columns;      // results, up to a multiple of the tile
  int quads_of_targets;    // whether four neighbouring targets may be stored at once
  GatherImage source;
  unsigned target_image_step, target_channel_step, target_row_step, target_column_step;

  __host__ __device__ AxisPhase rows(int phase) const {
    return is_gradient
               ? gradient_axis(phase, conv.height, conv.kernel_h, conv.stride_h, conv.pad_top,
                               conv.dilation_h)
               : forward_axis(conv.out_h, conv.kernel_h, conv.stride_h, conv.pad_top, conv.dilation_h);
  }
  __host__ __device__ AxisPhase columns(int phase) const {
    return is_gradient
               ? gradient_axis(phase, conv.width, conv.kernel_w, conv.stride_w, conv.pad_left,
                               conv.dilation_w)
               : forward_axis(conv.out_w, conv.kernel_w, conv.stride_w, conv.pad_left, conv.dilation_w);
  }
};

// A phase of a group as a block sees it.
struct PhasePlace {
  int group;
  AxisPhase rows, columns;
  FastDivide by_taps, by_column_taps;
  int depth;  // terms of every sum

  // Channel and taps of the k-th term. In NHWC images neighbouring channels are neighbours in memory, so
  // channels run fastest there; elsewhere the columns of the filter do.
  __device__ __forceinline__ int term(const ImageProduct& product, int k, int& row_tap,
                                      int& column_tap) const {
    int channel, tap;
    if (product.conv.is_nhwc) {
      tap = product.by_channels.split(k, channel);
    } else {
      channel = by_taps.split(k, tap);
    }
    row_tap = by_column_taps.split(tap, column_tap);
    return channel;
  }
};

// block.z = group * phases + phase.
__device__ __forceinline__ PhasePlace phase_place(const ImageProduct& product, int z) {
  const int phases = product.phases_h * product.phases_w, phase = z % phases;
  PhasePlace place;
  place.group = z / phases;
  place.rows = product.rows(phase / product.phases_w);
  place.columns = product.columns(phase % product.phases_w);
  const int taps = place.rows.taps * place.columns.taps;
  place.by_taps = fast_divide(max(taps, 1));
  place.by_column_taps = fast_divide(max(place.columns.taps, 1));
  place.depth = product.channels * taps;
  return place;
}

// packed[block.z][k][result]: the weights in the order in which the product reads them, zeros after the last
// term and the last result. Read along k, written along the results; the tile's odd pitch keeps both sides
// free of bank conflicts.
template <int kSide>
__global__ void conv2d_implicit_gemm_pack(const ImageProduct product, const float* weights, float* packed) {
  PROFKIT_SHARED(float, tile, [kSide][kSide + 1]);
  const PhasePlace place = phase_place(product, static_cast<int>(blockIdx.z));
  const int lane = static_cast<int>(threadIdx.x), turn = static_cast<int>(threadIdx.y);
  const int turns = static_cast<int>(blockDim.y);
  const int k_first = static_cast<int>(blockIdx.x) * kSide,
            result_first = static_cast<int>(blockIdx.y) * kSide;
  for (int i = turn; i < kSide; i += turns) {
    const int k = k_first + lane, result = result_first + i;
    float value = 0.0f;
    if (k < place.depth && result < product.results) {
      int row_tap, column_tap;
      const int channel = place.term(product, k, row_tap, column_tap);
      const int from = product.is_gradient ? channel : result, into = product.is_gradient ? result : channel;
      value = weights[product.conv.weight_at(place.group * product.conv.out_per_group + from, into,
                                             place.rows.first_tap + row_tap * place.rows.tap_step,
                                             place.columns.first_tap + column_tap * place.columns.tap_step)];
    }
    tile[i][lane] = value;
  }
  __syncthreads();
  packed += static_cast<int64_t>(blockIdx.z) * product.depth_rows * product.packed_columns;
  for (int i = turn; i < kSide; i += turns) {
    const int k = k_first + i, result = result_first + lane;
    if (k >= product.depth_rows || result >= product.packed_columns) continue;
    packed[static_cast<int64_t>(k) * product.packed_columns + result] = tile[lane][i];
  }
}

}  // namespace profkit::cuda
