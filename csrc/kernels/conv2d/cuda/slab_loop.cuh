// The loop of the implicit products: slices of kConvDepth terms are gathered into registers while the slice
// before is multiplied, then stored into the other of two buffers. The terms are in a table of two halves,
// filled a slab of slices at a time outside the multiplication loop, so that the index arithmetic of a term
// is done once per block and not once per element.
#pragma once

#include "kernels/cuda/tile_product.cuh"

namespace profkit::cuda {

constexpr int kConvDepth = 8;        // terms of a slice
constexpr int kConvTableSize = 128;  // entries of one half of the table

// Blocks per multiprocessor that registers are bounded for: 128 of them at 256 threads; small blocks gather
// more elements per thread and may have 168.
__host__ __device__ constexpr int blocks_wanted(int threads) { return threads >= 256 ? 2 : 384 / threads; }

// Two buffers; each holds a slice of a and, behind it, one of b.
template <int kRows, int kColumns>
struct SliceBuffers {
  // Four floats more than a row: lanes that store down a column meet different banks.
  static constexpr int kPitchA = kRows + 4, kPitchB = kColumns + 4;
  static constexpr int kOffsetB = kConvDepth * kPitchA;
  static constexpr int kStep = kOffsetB + kConvDepth * kPitchB;
};

// Slices that the sums take: two per turn of the loop, so that each buffer's addresses are constants.
__host__ __device__ constexpr int slices_of(int depth) { return divide_up(depth, 2 * kConvDepth) * 2; }

// `depth` is in shared memory: registers are for sums. `fill(slab)` writes a half of the table,
// `load(slice)` reads it and global memory, one slice behind the last included, `store(at)` writes what was
// loaded into the buffer at `at`.
template <int kSlicesPerSlab, int kRows, int kColumns, class Fill, class Load, class Store>
__device__ __forceinline__ void sum_slices(float (&sums)[kThreadRows][kThreadColumns], const float* buffers,
                                           const TilePlace<kRows, kColumns>& own, const int& depth,
                                           Fill&& fill, Load&& load, Store&& store) {
  static_assert(kSlicesPerSlab >= 4 && kSlicesPerSlab % 2 == 0,
                "between filling and reading a half of the table lies a barrier");
  using Buffers = SliceBuffers<kRows, kColumns>;
  fill(0);
  __syncthreads();
  if (depth > 0) {
    load(0);
    store(0);
  }
  __syncthreads();
  for (int slice = 0; slice < slices_of(depth);) {
    // This half was last read two slices ago, and is read next at the end of this slab.
    fill(slice / kSlicesPerSlab + 1);
    const int end = min(slice + kSlicesPerSlab, slices_of(depth));
#pragma unroll 1
    for (; slice < end; slice += 2) {
#pragma unroll
      for (int turn = 0; turn < 2; ++turn) {
        load(slice + turn + 1);
        const float* const from = buffers + turn * Buffers::kStep;
        multiply_slice<kRows, kColumns, kConvDepth, Buffers::kPitchA, Buffers::kPitchB>(
            sums, from, from + Buffers::kOffsetB, own);
        store((1 - turn) * Buffers::kStep);
        __syncthreads();
      }
    }
  }
}

}  // namespace profkit::cuda
