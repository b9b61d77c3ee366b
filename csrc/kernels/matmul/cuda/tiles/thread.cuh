// The 8x8 elements of c that one thread sums up, as 2x2 squares of 4x4, so that operands come from shared
// memory as 128-bit words: 4 reads per 64 multiply-adds.
//
// A warp owns 32 rows x 64 columns, its lanes are 4 rows x 8 columns of squares; the other squares of a
// thread are 16 rows and 32 columns further. Lanes that differ in bit 0 read the same columns of b, lanes
// that differ in bit 1 the same rows of a: equal words of neighbouring lanes are read once, the others lie in
// 128 bytes next to each other.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/matmul/cuda/problem.cuh"

namespace profkit::cuda {

constexpr int kThreadSide = 8;
constexpr int kWarpRows = 32, kWarpColumns = 64;

// Blocks per multiprocessor that registers are bounded for: 128 of them with 256 threads; small blocks stage
// more elements per thread and may have 168.
__host__ __device__ constexpr int tiles_per_multiprocessor(int threads) { return threads >= 256 ? 2 : 6; }

struct ThreadPlace {
  int row, column;  // of the thread's first square, within the block's tile
};

// Thread and block, read again: what is computed from them after a loop occupies no registers in the loop.
struct ReloadedIndices {
  int thread, block_x, block_y, block_z;

  __device__ __forceinline__ ReloadedIndices() {
#if defined(PROFKIT_EMULATED)
    thread = static_cast<int>(threadIdx.x);
    block_x = static_cast<int>(blockIdx.x), block_y = static_cast<int>(blockIdx.y);
    block_z = static_cast<int>(blockIdx.z);
#else
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block_x));
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(block_y));
    asm volatile("mov.u32 %0, %%ctaid.z;" : "=r"(block_z));
#endif
  }
};

template <int kColumns>
__device__ __forceinline__ ThreadPlace thread_place(int thread) {
  constexpr int kWarpsAcross = kColumns / kWarpColumns;
  const int lane = thread % kWarpSize, warp = thread / kWarpSize;
  const int lane_row = lane / 16 * 2 + lane % 2, lane_column = lane / 2 % 8;
  return {warp / kWarpsAcross * kWarpRows + lane_row * 4,
          warp % kWarpsAcross * kWarpColumns + lane_column * 4};
}

// Eight values of one term: two 128-bit words, `apart` elements from each other.
__device__ __forceinline__ void load_fragment(float (&fragment)[kThreadSide], const float* from, int apart) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 values = *reinterpret_cast<const float4*>(from + half * apart);
    fragment[half * 4] = values.x;
    fragment[half * 4 + 1] = values.y;
    fragment[half * 4 + 2] = values.z;
    fragment[half * 4 + 3] = values.w;
  }
}

__device__ __forceinline__ void add_outer_product(float (&sums)[kThreadSide][kThreadSide],
                                                  const float (&a)[kThreadSide],
                                                  const float (&b)[kThreadSide]) {
#pragma unroll
  for (int i = 0; i < kThreadSide; ++i) {
#pragma unroll
    for (int j = 0; j < kThreadSide; ++j) sums[i][j] += a[i] * b[j];
  }
}

// Bias, ReLU, and out; 128-bit stores when rows of c are aligned. `row` and `column` count in the whole c.
__device__ __forceinline__ void store_thread_tile(const MatmulProblem& problem, float* c, const float* bias,
                                                  int row, int column,
                                                  float (&sums)[kThreadSide][kThreadSide]) {
  const auto row_of = [&](int i) { return row + i / 4 * (kWarpRows / 2) + i % 4; };
  const auto column_of = [&](int j) { return column + j / 4 * (kWarpColumns / 2) + j % 4; };
  problem.finish(sums, bias, row_of, column_of);
#pragma unroll
  for (int i = 0; i < kThreadSide; ++i) {
    if (row_of(i) >= problem.m) continue;
#pragma unroll
    for (int j = 0; j < kThreadSide; j += 4) {
      float* const target = c + problem.c_index(row_of(i), column_of(j));
      if (problem.has_aligned_rows_of_c) {
        if (column_of(j) >= problem.n) continue;
        *reinterpret_cast<float4*>(target) =
            make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (column_of(j + e) < problem.n) target[e] = sums[i][j + e];
        }
      }
    }
  }
}

}  // namespace profkit::cuda
