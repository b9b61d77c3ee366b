// The weight gradient as a product of matrices that are never written: rows are terms of a filter (channel
// and tap), columns are output channels, the depth runs over the output positions of all images. The roles of
// cuda/implicit_gemm.cuh are exchanged: terms are fixed per thread, positions come from the table, which also
// says where the position is in dy. The depth is long and the result small, so that the depth is split
// between blocks; each writes its own sums and a second kernel adds them up, always in the same order.
#pragma once

#include "kernels/conv2d/cuda/add_splits.cuh"
#include "kernels/conv2d/cuda/gather.cuh"
#include "kernels/conv2d/cuda/problem.cuh"
#include "kernels/conv2d/cuda/slab_loop.cuh"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/load_if.cuh"

namespace profkit::cuda {

struct alignas(16) GatherPosition {
  GatherPart source;
  int gradient;  // offset in dy
  int unused;
};

struct WeightProduct {
  ConvProblem conv;
  int rows, columns, depth;  // per group; depth of all blocks together
  int splits, terms_per_split;
  int64_t weights;  // elements of dw: from one split's sums to the next one's
  FastDivide by_taps, by_kernel_w, by_channels, by_plane, by_out_w;
  GatherImage source, gradient;

  // In NHWC images neighbouring channels are neighbours in memory, so channels run fastest there; elsewhere
  // rows are in the order of the weights. Returns the row's place among the weights of its filter.
  __device__ __forceinline__ int term(int row, int& channel, int& row_tap, int& column_tap) const {
    int tap;
    if (conv.is_nhwc) {
      tap = by_channels.split(row, channel);
    } else {
      channel = by_taps.split(row, tap);
    }
    row_tap = by_kernel_w.split(tap, column_tap);
    return channel * by_taps.divisor + tap;
  }

  __device__ __forceinline__ GatherPart term_part(int group, int row) const {
    int channel, row_tap, column_tap;
    term(row, channel, row_tap, column_tap);
    return {source.offset(0, group * conv.in_per_group + channel, row_tap * conv.dilation_h,
                          column_tap * conv.dilation_w),
            term_bits(row_tap, column_tap)};
  }

  __device__ __forceinline__ GatherPosition position(int at) const {
    int in_plane, x;
    const int n = by_plane.split(at, in_plane), y = by_out_w.split(in_plane, x);
    const int h = conv.input_row(y, 0), w = conv.input_column(x, 0);
    const unsigned outside = kPositionBits | taps_outside(h, conv.dilation_h, conv.kernel_h, source.height) |
                             taps_outside(w, conv.dilation_w, conv.kernel_w, source.width) << 16;
    return {{source.offset(n, 0, h, w), outside}, gradient.offset(n, 0, y, x), 0};
  }
};

// A group's part of the depth.
struct SplitPlace {
  int group, split, first_term, terms;
};

// block.z = group * splits + split.
__device__ __forceinline__ SplitPlace split_place(const WeightProduct& product, int z) {
  const int group = z / product.splits, split = z % product.splits;
  const int first_term = split * product.terms_per_split;
  return {group, split, first_term, min(product.terms_per_split, product.depth - first_term)};
}

// kAlongDepth: lanes run along the positions, which are neighbours in NCHW images; otherwise along terms and
// output channels. Terms and channels after the last are read as the last: their sums are never stored.
template <int kTile, bool kAlongDepth>
__global__ void __launch_bounds__(TilePlace<kTile, kTile>::kThreads,
                                  blocks_wanted(TilePlace<kTile, kTile>::kThreads))
    conv2d_implicit_gemm_weights(const WeightProduct product, const float* source, const float* gradient,
                                 float* target) {
  using Place = TilePlace<kTile, kTile>;
  using Buffers = SliceBuffers<kTile, kTile>;
  constexpr int kThreads = Place::kThreads, kLoads = kTile * kConvDepth / kThreads;
  constexpr int kOwn = kAlongDepth ? kLoads : 1;
  constexpr int kSlicesPerSlab = kConvTableSize / kConvDepth;
  PROFKIT_SHARED(float, buffers, [2 * Buffers::kStep]);
  PROFKIT_SHARED(GatherPosition, table, [2 * kConvTableSize]);
  PROFKIT_SHARED(SplitPlace, places, [1]);
  const int thread = static_cast<int>(threadIdx.x);
  const int row_first = static_cast<int>(blockIdx.x) * kTile,
            column_first = static_cast<int>(blockIdx.y) * kTile;
  if (thread == 0) places[0] = split_place(product, static_cast<int>(blockIdx.z));
  __syncthreads();
  const SplitPlace& place = places[0];  // in shared memory: registers are for sums

  // Of the tile: the thread's first row (and column), its first place in the depth.
  const int across = kAlongDepth ? thread / kConvDepth : thread % kTile;
  const int depth_at = kAlongDepth ? thread % kConvDepth : thread / kTile * kLoads;
  constexpr int kAcrossStep = kAlongDepth ? kThreads / kConvDepth : 0, kDepthStep = kAlongDepth ? 0 : 1;

  GatherPart rows[kOwn];
  int columns[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    rows[i] = product.term_part(place.group, min(row_first + across + i * kAcrossStep, product.rows - 1));
    const int column = min(column_first + across + i * kAcrossStep, product.columns - 1);
    columns[i] = (place.group * product.columns + column) * product.gradient.channel_step;
  }
  const auto fill_table = [&](int slab) {
#pragma unroll 1
    for (int entry = thread; entry < kConvTableSize; entry += kThreads) {
      const int k = slab * kConvTableSize + entry;
      GatherPosition position = {{0, kNoPositionBits}, 0, 0};
      if (k < place.terms) position = product.position(place.first_term + k);
      table[slab % 2 * kConvTableSize + entry] = position;
    }
  };
  float a_staged[kLoads], b_staged[kLoads];
  const auto load_slice = [&](int slice) {
    const GatherPosition* const entries = table + slice % (2 * kSlicesPerSlab) * kConvDepth + depth_at;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const GatherPosition entry = entries[i * kDepthStep];
      const GatherPart& row = rows[kAlongDepth ? i : 0];
      load_unless(row.bits & entry.source.bits, a_staged[i], source, row.offset + entry.source.offset);
      load_unless(kAnyPositionBits & entry.source.bits, b_staged[i], gradient,
                  columns[kAlongDepth ? i : 0] + entry.gradient);
    }
  };
  const auto store_slice = [&](int at) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int k = depth_at + i * kDepthStep, lane = across + i * kAcrossStep;
      buffers[at + k * Buffers::kPitchA + lane] = a_staged[i];
      buffers[at + Buffers::kOffsetB + k * Buffers::kPitchB + lane] = b_staged[i];
    }
  };

  const Place own(thread);
  float sums[kThreadRows][kThreadColumns] = {};
  sum_slices<kSlicesPerSlab>(sums, buffers, own, place.terms, fill_table, load_slice, store_slice);

  target += place.split * product.weights;
#pragma unroll
  for (int i = 0; i < kThreadRows; ++i) {
    const int row = row_first + own.row_of(i);
    if (row >= product.rows) continue;
    int channel, row_tap, column_tap;
    const int weight = product.term(row, channel, row_tap, column_tap);
#pragma unroll
    for (int j = 0; j < kThreadColumns; ++j) {
      const int column = column_first + own.column_of(j);
      if (column >= product.columns) continue;
      target[(place.group * product.columns + column) * product.rows + weight] = sums[i][j];
    }
  }
}

}  // namespace profkit::cuda
