// Winograd's convolution in four steps: filters, tiles of the source image, 36 products of matrices (one per
// element of a transformed tile), tiles of the target image. A product of 3x3 filters takes 36
// multiplications for 16 results instead of 144, one of 5x5 filters 36 for 4 instead of 100. The input
// gradient is the same with rotated filters and other padding. The transforms are bound by memory, the
// products by FFMA.
//
// Workspace, all padded with zeros to whole tiles of the product: filters[group][element][channel][result],
// sources[group][element][channel][position], sums[group][element][result][position]. Positions are tiles of
// all images; lanes run along them, so that accesses to the workspace are coalesced.
#pragma once

#include "kernels/conv2d/cuda/gather.cuh"
#include "kernels/conv2d/cuda/problem.cuh"
#include "kernels/conv2d/cuda/slab_loop.cuh"
#include "kernels/conv2d/cuda/winograd_transform.cuh"
#include "kernels/cuda/fast_divide.cuh"

namespace profkit::cuda {

// A block of the transforms: lanes along positions (or results), and neighbouring channels, which share the
// sectors of NHWC images.
constexpr int kWinogradLanes = 32, kWinogradTurns = 8;

struct WinogradProblem {
  ConvProblem conv;
  int is_gradient;
  int channels, results, positions;                       // per group
  int padded_channels, padded_results, padded_positions;  // to whole tiles of the product
  int source_first_h, source_first_w;                     // where the first tile begins: mostly outside
  int target_height, target_width;
  GatherImage source;
  ImageSteps target;
  FastDivide by_plane, by_tiles_w;  // tiles of an image, tiles side by side

  __device__ __forceinline__ int tile_at(int position, int& tile_h, int& tile_w) const {
    int in_plane;
    const int n = by_plane.split(position, in_plane);
    tile_h = by_tiles_w.split(in_plane, tile_w);
    return n;
  }
  // The element's matrix of a transformed operand.
  __device__ __forceinline__ static int64_t matrix(int group, int element, int rows, int columns) {
    return (static_cast<int64_t>(group) * kWinogradArea + element) * rows * columns;
  }
};

template <int kTaps>
__global__ void __launch_bounds__(kWinogradLanes* kWinogradTurns)
    conv2d_winograd_filters(const WinogradProblem problem, const float* weights, float* filters) {
  const int result = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int channel = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  const int group = static_cast<int>(blockIdx.z);
  if (result >= problem.padded_results || channel >= problem.padded_channels) return;
  float taps[kTaps][kTaps] = {}, transformed[kWinogradSide][kWinogradSide];
  if (result < problem.results && channel < problem.channels) {
    const int from = problem.is_gradient ? channel : result, into = problem.is_gradient ? result : channel;
    const int oc = group * problem.conv.out_per_group + from;
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
#pragma unroll
      for (int s = 0; s < kTaps; ++s) {
        const int row = problem.is_gradient ? kTaps - 1 - r : r,
                  column = problem.is_gradient ? kTaps - 1 - s : s;
        taps[r][s] = weights[problem.conv.weight_at(oc, into, row, column)];
      }
    }
  }
  winograd_transform<WinogradFilter<kTaps>>(taps, transformed);
#pragma unroll
  for (int element = 0; element < kWinogradArea; ++element) {
    filters[WinogradProblem::matrix(group, element, problem.padded_channels, problem.padded_results) +
            channel * problem.padded_results + result] =
        transformed[element / kWinogradSide][element % kWinogradSide];
  }
}

template <int kTaps>
__global__ void __launch_bounds__(kWinogradLanes* kWinogradTurns)
    conv2d_winograd_sources(const WinogradProblem problem, const float* source, float* sources) {
  constexpr int kOutputs = winograd_outputs(kTaps);
  const int position = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int channel = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  const int group = static_cast<int>(blockIdx.z);
  if (position >= problem.padded_positions || channel >= problem.padded_channels) return;
  float tile[kWinogradSide][kWinogradSide] = {}, transformed[kWinogradSide][kWinogradSide];
  if (position < problem.positions && channel < problem.channels) {
    int tile_h, tile_w;
    const int n = problem.tile_at(position, tile_h, tile_w);
    const int h_first = problem.source_first_h + tile_h * kOutputs;
    const int w_first = problem.source_first_w + tile_w * kOutputs;
    source += problem.source.offset(n, group * problem.channels + channel, 0, 0);
#pragma unroll
    for (int i = 0; i < kWinogradSide; ++i) {
      const int h = h_first + i;
      if (static_cast<unsigned>(h) >= static_cast<unsigned>(problem.source.height)) continue;
#pragma unroll
      for (int j = 0; j < kWinogradSide; ++j) {
        const int w = w_first + j;
        if (static_cast<unsigned>(w) >= static_cast<unsigned>(problem.source.width)) continue;
        tile[i][j] = source[h * problem.source.row_step + w * problem.source.column_step];
      }
    }
  }
  winograd_transform<WinogradSource>(tile, transformed);
#pragma unroll
  for (int element = 0; element < kWinogradArea; ++element) {
    sources[WinogradProblem::matrix(group, element, problem.padded_channels, problem.padded_positions) +
            channel * problem.padded_positions + position] =
        transformed[element / kWinogradSide][element % kWinogradSide];
  }
}

// Sizes of the padded matrices, and from one matrix to the next.
struct WinogradProducts {
  int channels;
  unsigned results, positions;
  int64_t filters_step, sources_step, sums_step;
};

// sums[result][position] = the channels' filters[channel][result] * sources[channel][position]; block.z is
// the group and the element. Everything is padded, so there are no bounds checks. One slice after the last is
// read.
template <int kTile>
__global__ void __launch_bounds__(TilePlace<kTile, kTile>::kThreads,
                                  blocks_wanted(TilePlace<kTile, kTile>::kThreads))
    conv2d_winograd_products(const WinogradProducts sizes, const float* __restrict__ filters,
                             const float* __restrict__ sources, float* sums_at) {
  using Place = TilePlace<kTile, kTile>;
  using Buffers = SliceBuffers<kTile, kTile>;
  constexpr int kLoads = kTile * kConvDepth / 4 / Place::kThreads;
  constexpr int kRowsAtOnce = Place::kThreads / (kTile / 4);
  constexpr int kOneSlab = 1 << 24;  // slices: there is no table
  PROFKIT_SHARED(float, buffers, [2 * Buffers::kStep]);
  const unsigned thread = threadIdx.x, row = thread / (kTile / 4), column = thread % (kTile / 4) * 4;
  sources += blockIdx.z * sizes.sources_step + (row * sizes.positions + blockIdx.x * kTile + column);
  filters += blockIdx.z * sizes.filters_step + (row * sizes.results + blockIdx.y * kTile + column);

  float4 a_staged[kLoads], b_staged[kLoads];
  const auto load_slice = [&](int) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      a_staged[i] = *reinterpret_cast<const float4*>(sources);
      b_staged[i] = *reinterpret_cast<const float4*>(filters);
      sources += kRowsAtOnce * sizes.positions;
      filters += kRowsAtOnce * sizes.results;
    }
  };
  const auto store_slice = [&](int at) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      float* const to = buffers + at + column;
      *reinterpret_cast<float4*>(to + (row + i * kRowsAtOnce) * Buffers::kPitchA) = a_staged[i];
      *reinterpret_cast<float4*>(to + Buffers::kOffsetB + (row + i * kRowsAtOnce) * Buffers::kPitchB) =
          b_staged[i];
    }
  };
  const Place own(static_cast<int>(thread));
  float sums[kThreadRows][kThreadColumns] = {};
  sum_slices<kOneSlab>(sums, buffers, own, sizes.channels, [](int) {}, load_slice, store_slice);

  // Computed here and not before the loop: registers are for sums.
  sums_at += blockIdx.z * sizes.sums_step + (blockIdx.x * kTile + static_cast<unsigned>(own.row));
#pragma unroll
  for (int j = 0; j < kThreadColumns; ++j) {
    float* const to =
        sums_at + (blockIdx.y * kTile + static_cast<unsigned>(own.column_of(j))) * sizes.positions;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<float4*>(to + half * (kTile / 2)) =
          make_float4(sums[half * 4][j], sums[half * 4 + 1][j], sums[half * 4 + 2][j], sums[half * 4 + 3][j]);
    }
  }
}

template <int kTaps>
__global__ void __launch_bounds__(kWinogradLanes* kWinogradTurns)
    conv2d_winograd_targets(const WinogradProblem problem, const float* sums, const float* bias,
                            float* target) {
  constexpr int kOutputs = winograd_outputs(kTaps);
  const int position = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int result = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  const int group = static_cast<int>(blockIdx.z);
  if (position >= problem.positions || result >= problem.results) return;
  float tile[kWinogradSide][kWinogradSide], outputs[kOutputs][kOutputs];
#pragma unroll
  for (int element = 0; element < kWinogradArea; ++element) {
    tile[element / kWinogradSide][element % kWinogradSide] =
        sums[WinogradProblem::matrix(group, element, problem.padded_results, problem.padded_positions) +
             result * problem.padded_positions + position];
  }
  winograd_transform<WinogradTarget<kTaps>>(tile, outputs);
  int tile_h, tile_w;
  const int n = problem.tile_at(position, tile_h, tile_w), oc = group * problem.results + result;
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    const int h = tile_h * kOutputs + i;
    if (h >= problem.target_height) continue;
#pragma unroll
    for (int j = 0; j < kOutputs; ++j) {
      const int w = tile_w * kOutputs + j;
      if (w >= problem.target_width) continue;
      target[problem.target.at(n, oc, h, w)] = problem.conv.finished(outputs[i][j], bias, oc);
    }
  }
}

}  // namespace profkit::cuda
