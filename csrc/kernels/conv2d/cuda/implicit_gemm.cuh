// Convolution as a product of matrices that are never written: rows are positions, columns are result
// channels, the depth runs over channels and taps (cuda/image_product.cuh). A block computes a tile of
// kRows x kColumns sums from slices of kConvDepth terms in shared memory; while one slice is multiplied the
// next is gathered into registers and then stored into the other buffer. Bound by FFMA where the depth is
// large, by the gather's loads where the results are few.
//
// The terms of a slice are in a table in shared memory, filled for a slab of slices at a time outside the
// multiplication loop.
#pragma once

#include "kernels/conv2d/cuda/image_product.cuh"
#include "kernels/conv2d/cuda/slab_loop.cuh"
#include "kernels/cuda/load_if.cuh"

namespace profkit::cuda {

// kQuads: four neighbouring channels of an NHWC image per load; channels are then a multiple of four.
template <int kRows, int kColumns, bool kQuads>
struct ImplicitGemm {
  using Place = TilePlace<kRows, kColumns>;
  static constexpr int kThreads = Place::kThreads;
  static constexpr int kTermsPerEntry = kQuads ? 4 : 1;
  static constexpr int kEntriesPerSlice = kConvDepth / kTermsPerEntry;
  static constexpr int kSlicesPerSlab = kConvTableSize / kEntriesPerSlice;
  static constexpr int kLoadsA = kRows * kEntriesPerSlice / kThreads;
  static constexpr int kLoadsB = kColumns * kConvDepth / 4 / kThreads;
  static constexpr int kOwnRows = kQuads ? kLoadsA : 1;  // rows that a thread gathers

  const ImageProduct& product;
  const PhasePlace& place;  // in shared memory: registers are for sums
  const int thread;

  // Rows that the thread gathers, entries of a slice that it gathers for them: lanes run along the rows, or
  // two lanes along the entries of a row. A thread's entries are adjacent and read two at a time.
  __device__ __forceinline__ int row_of_load(int i) const {
    return kQuads ? (thread + i * kThreads) / kEntriesPerSlice : thread % kRows;
  }
  __device__ __forceinline__ int entry_of_load(int i) const {
    return kQuads ? thread % kEntriesPerSlice : thread / kRows * kLoadsA + i;
  }

  // Where the position's sums go (kNowhere: it does not exist), and where it begins in the source.
  __device__ __forceinline__ unsigned position(int at, GatherPart& part) const {
    const int plane = place.rows.count * place.columns.count;
    part = {0, kNoPositionBits};
    if (at >= product.conv.batch * plane) return kNowhere;
    const int n = at / plane, i = at % plane / place.columns.count, j = at % plane % place.columns.count;
    const int source_h = place.rows.source_first + i * place.rows.source_step;
    const int source_w = place.columns.source_first + j * place.columns.source_step;
    part.offset = product.source.offset(n, place.group * product.channels, source_h, source_w);
    part.bits =
        kPositionBits |
        taps_outside(source_h, place.rows.source_tap_step, place.rows.taps, product.source.height) |
        taps_outside(source_w, place.columns.source_tap_step, place.columns.taps, product.source.width) << 16;
    const int h = place.rows.target_first + i * place.rows.target_step;
    const int w = place.columns.target_first + j * place.columns.target_step;
    return static_cast<unsigned>(n) * product.target_image_step +
           static_cast<unsigned>(place.group * product.results) * product.target_channel_step +
           static_cast<unsigned>(h) * product.target_row_step +
           static_cast<unsigned>(w) * product.target_column_step;
  }

  __device__ __forceinline__ void fill_table(GatherPart* table, int slab) const {
#pragma unroll 1
    for (int entry = thread; entry < kConvTableSize; entry += kThreads) {
      const int k = (slab * kConvTableSize + entry) * kTermsPerEntry;
      GatherPart part = {0, kNoTermBits};
      if (k < place.depth) {
        int row_tap, column_tap;
        const int channel = place.term(product, k, row_tap, column_tap);
        part.offset = product.source.offset(0, channel, row_tap * place.rows.source_tap_step,
                                            column_tap * place.columns.source_tap_step);
        part.bits = term_bits(row_tap, column_tap);
      }
      table[slab % 2 * kConvTableSize + entry] = part;
    }
  }
};

// Four neighbouring targets, at once where that is allowed.
__device__ __forceinline__ void store_run(float* target, const float (&values)[4], int count, bool is_whole) {
  if (is_whole) {
    *reinterpret_cast<float4*>(target) = make_float4(values[0], values[1], values[2], values[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) target[i] = values[i];
  }
}

// NHWC: results are neighbours; a thread stores its rows by quarters of columns.
template <int kRows, int kColumns>
__device__ __forceinline__ void store_pixels(const ImageProduct& product,
                                             const TilePlace<kRows, kColumns>& own, int group,
                                             int column_first, const unsigned* targets,
                                             const float (&sums)[kThreadRows][kThreadColumns],
                                             const float* bias, float* target) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = column_first + own.column_of(half * 4), count = product.results - column;
    if (count <= 0) continue;
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      const unsigned at = targets[own.row_of(i)];
      if (at == kNowhere) continue;
      float values[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int oc = group * product.results + column + min(j, count - 1);
        values[j] = product.conv.finished(sums[i][half * 4 + j], bias, oc);
      }
      store_run(target + at + static_cast<unsigned>(column), values, count,
                product.quads_of_targets && count >= 4);
    }
  }
}

// NCHW: positions are neighbours, mostly; a thread stores its columns by quarters of rows.
template <int kRows, int kColumns>
__device__ __forceinline__ void store_planes(const ImageProduct& product,
                                             const TilePlace<kRows, kColumns>& own, int group,
                                             int column_first, const unsigned* targets,
                                             const float (&sums)[kThreadRows][kThreadColumns],
                                             const float* bias, float* target) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned* const at = targets + own.row_of(half * 4);
    const bool is_run = product.quads_of_targets && at[0] % 4 == 0 && at[0] != kNowhere && at[3] == at[0] + 3;
#pragma unroll
    for (int j = 0; j < kThreadColumns; ++j) {
      const int column = column_first + own.column_of(j);
      if (column >= product.results) continue;
      float* const plane = target + static_cast<unsigned>(column) * product.target_channel_step;
      float values[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[i] = product.conv.finished(sums[half * 4 + i][j], bias, group * product.results + column);
      }
      if (is_run) {
        store_run(plane + at[0], values, 4, true);
        continue;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (at[i] != kNowhere) plane[at[i]] = values[i];
      }
    }
  }
}

template <int kRows, int kColumns, bool kQuads>
__global__ void __launch_bounds__(TilePlace<kRows, kColumns>::kThreads,
                                  blocks_wanted(TilePlace<kRows, kColumns>::kThreads))
    conv2d_implicit_gemm(const ImageProduct product, const float* source, const float* packed,
                         const float* bias, float* target) {
  using Gemm = ImplicitGemm<kRows, kColumns, kQuads>;
  using Buffers = SliceBuffers<kRows, kColumns>;
  PROFKIT_SHARED(float, buffers, [2 * Buffers::kStep]);
  PROFKIT_SHARED(GatherPart, table, [2 * kConvTableSize]);
  PROFKIT_SHARED(unsigned, targets, [kRows]);
  PROFKIT_SHARED(PhasePlace, places, [1]);
  PhasePlace& place = places[0];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) place = phase_place(product, static_cast<int>(blockIdx.z));
  __syncthreads();
  const Gemm gemm{product, place, thread};
  const int row_first = static_cast<int>(blockIdx.x) * kRows,
            column_first = static_cast<int>(blockIdx.y) * kColumns;
  if (row_first >= product.conv.batch * place.rows.count * place.columns.count) return;

  GatherPart rows[Gemm::kOwnRows];
#pragma unroll
  for (int i = 0; i < Gemm::kOwnRows; ++i) gemm.position(row_first + gemm.row_of_load(i), rows[i]);
#pragma unroll 1
  for (int row = thread; row < kRows; row += Gemm::kThreads) {
    GatherPart unused;
    targets[row] = gemm.position(row_first + row, unused);
  }
  if constexpr (!kQuads) source += rows[0].offset;
  packed += static_cast<int64_t>(blockIdx.z) * product.depth_rows * product.packed_columns;
  const int b_row = thread / (kColumns / 4), b_column = thread % (kColumns / 4) * 4;
  constexpr int kRowsB = Gemm::kThreads / (kColumns / 4);
  packed += b_row * product.packed_columns + column_first + b_column;

  float a_staged[Gemm::kLoadsA][Gemm::kTermsPerEntry];
  float4 b_staged[Gemm::kLoadsB];
  const auto load_slice = [&](int slice) {
    const GatherPart* const entries =
        table + slice % (2 * Gemm::kSlicesPerSlab) * Gemm::kEntriesPerSlice + gemm.entry_of_load(0);
    if constexpr (kQuads) {
      const GatherPart entry = entries[0];
#pragma unroll
      for (int i = 0; i < Gemm::kLoadsA; ++i) {
        load_four_unless(rows[i].bits & entry.bits, a_staged[i], source, rows[i].offset + entry.offset);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Gemm::kLoadsA; i += 2) {
        const GatherPair pair = *reinterpret_cast<const GatherPair*>(entries + i);
        load_unless(rows[0].bits & pair.low.bits, a_staged[i][0], source, pair.low.offset);
        load_unless(rows[0].bits & pair.high.bits, a_staged[i + 1][0], source, pair.high.offset);
      }
    }
#pragma unroll
    for (int i = 0; i < Gemm::kLoadsB; ++i) {
      b_staged[i] = __ldg(reinterpret_cast<const float4*>(packed));
      packed += kRowsB * product.packed_columns;
    }
  };
  const auto store_slice = [&](int at) {
#pragma unroll
    for (int i = 0; i < Gemm::kLoadsA; ++i) {
#pragma unroll
      for (int e = 0; e < Gemm::kTermsPerEntry; ++e) {
        const int k = gemm.entry_of_load(i) * Gemm::kTermsPerEntry + e;
        buffers[at + k * Buffers::kPitchA + gemm.row_of_load(i)] = a_staged[i][e];
      }
    }
#pragma unroll
    for (int i = 0; i < Gemm::kLoadsB; ++i) {
      float* const b = buffers + at + Buffers::kOffsetB + (b_row + i * kRowsB) * Buffers::kPitchB + b_column;
      *reinterpret_cast<float4*>(b) = b_staged[i];
    }
  };

  const typename Gemm::Place own(thread);
  float sums[kThreadRows][kThreadColumns] = {};
  // After the last slice the table has no positions, and the packed weights have one more slice.
  sum_slices<Gemm::kSlicesPerSlab>(
      sums, buffers, own, place.depth, [&](int slab) { gemm.fill_table(table, slab); }, load_slice,
      store_slice);
  if (product.conv.is_nhwc) {
    store_pixels(product, own, place.group, column_first, targets, sums, bias, target);
  } else {
    store_planes(product, own, place.group, column_first, targets, sums, bias, target);
  }
}

}  // namespace profkit::cuda
