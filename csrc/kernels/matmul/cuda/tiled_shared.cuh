// Improves on `coalesced`: a block of kSide x kSide threads brings a square of a and one of b into shared
// memory once and then reads each element kSide times from there. Bound by shared memory: two words per
// multiply-add.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/matmul/cuda/problem.cuh"
#include "kernels/matmul/cuda/tiles/scalar.cuh"

namespace profkit::cuda {

template <int kSide>
__global__ void __launch_bounds__(kSide* kSide)
    matmul_tiled_shared(const MatmulProblem problem, const float* __restrict__ a, const float* __restrict__ b,
                        const float* __restrict__ bias, float* c) {
  using Tile = ScalarTile<kSide, kSide>;
  constexpr int kThreads = kSide * kSide;
  PROFKIT_SHARED(float, tile_a, [Tile::kWords]);
  PROFKIT_SHARED(float, tile_b, [Tile::kWords]);
  const int first_row = static_cast<int>(blockIdx.x) * kSide,
            first_column = static_cast<int>(blockIdx.y) * kSide;
  const int own_row = static_cast<int>(threadIdx.x) / kSide,
            own_column = static_cast<int>(threadIdx.x) % kSide;
  a += problem.a_batch_step * blockIdx.z;
  b += problem.b_batch_step * blockIdx.z;
  c += problem.c_batch_step * blockIdx.z;
  float sum = 0;
  for (int first = 0; first < problem.k; first += kSide) {
    Tile::template fill<kThreads>(tile_a, a + problem.a_index(first_row, first), problem.a_row,
                                  !problem.transpose_a, problem.m - first_row, problem.k - first);
    Tile::template fill<kThreads>(tile_b, b + problem.b_index(first, first_column), problem.b_row,
                                  problem.transpose_b, problem.n - first_column, problem.k - first);
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < kSide; ++depth) {
      sum += tile_a[depth * Tile::kPitch + own_row] * tile_b[depth * Tile::kPitch + own_column];
    }
    __syncthreads();
  }
  const int row = first_row + own_row, column = first_column + own_column;
  if (row < problem.m && column < problem.n) {
    c[problem.c_index(row, column)] = problem.finished(sum, bias, row, column);
  }
}

}  // namespace profkit::cuda
