// The product of two slices in shared memory, as every register-tiled kernel has it: a[kDepth][rows] and
// b[kDepth][columns], so that a thread's operands are four 128-bit loads per step of the depth. A thread owns
// 8 x 8 sums as 2 x 2 quarters of 4 x 4; the quarters lie half a tile apart.
//
// Banks: a warp's lanes are 8 along the rows and 4 along the columns. A load of a touches 8 neighbouring
// float4 = all 32 banks once, one of b 4 float4 that 8 lanes each share: one wavefront each, no conflict.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

constexpr int kThreadRows = 8, kThreadColumns = 8;

// How the threads of a block share a tile; the tile is a multiple of 64 x 32.
template <int kTileRows, int kTileColumns>
struct TilePlace {
  static_assert(kTileRows % 64 == 0 && kTileColumns % 32 == 0);
  static constexpr int kThreads = kTileRows * kTileColumns / (kThreadRows * kThreadColumns);
  static constexpr int kWarpsAlongRows = kTileRows / 64;

  int row, column;  // the first of the thread's first quarter

  __device__ __forceinline__ explicit TilePlace(int thread) {
    const int warp = thread / kWarpSize, lane = thread % kWarpSize;
    row = warp % kWarpsAlongRows * 32 + lane % 8 * 4;
    column = warp / kWarpsAlongRows * 16 + lane / 8 * 4;
  }
  // Row of the tile that the thread's i-th row is, i in 0..7; columns alike.
  __device__ __forceinline__ int row_of(int i) const { return row + i % 4 + i / 4 * (kTileRows / 2); }
  __device__ __forceinline__ int column_of(int j) const {
    return column + j % 4 + j / 4 * (kTileColumns / 2);
  }
};

__device__ __forceinline__ void load_quarters(float (&values)[8], const float* from, int half) {
  const float4 low = *reinterpret_cast<const float4*>(from);
  const float4 high = *reinterpret_cast<const float4*>(from + half);
  values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
  values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

// sums += a^T b over one slice; `a` and `b` point to the first row of the slice, kPitch* apart per step.
template <int kTileRows, int kTileColumns, int kDepth, int kPitchA, int kPitchB>
__device__ __forceinline__ void multiply_slice(float (&sums)[kThreadRows][kThreadColumns], const float* a,
                                               const float* b,
                                               const TilePlace<kTileRows, kTileColumns>& place) {
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    float rows[kThreadRows], columns[kThreadColumns];
    load_quarters(rows, a + k * kPitchA + place.row, kTileRows / 2);
    load_quarters(columns, b + k * kPitchB + place.column, kTileColumns / 2);
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < kThreadColumns; ++j) sums[i][j] += rows[i] * columns[j];
    }
  }
}

}  // namespace profkit::cuda
