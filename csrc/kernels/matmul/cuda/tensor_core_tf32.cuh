// float32 operands on tensor cores, rounded to TF32 (10 bits of fraction) on their way into shared memory;
// sums in float32. Staged and double-buffered as `double_buffered` is, 16 terms per tile; what multiplies are
// fragments of 16x8 by 8x8. Bound by the tensor cores and the scalar shared reads of fragments. Needs sm_80.
//
// The terms of a sum may be taken in any order as long as a and b agree: fragments take terms 0, 2, 4, 6,
// then 1, 3, 5, 7 where mma has 0 to 3, then 4 to 7. Rows of the shared tile are 4 words longer than a
// multiple of 32, so the four terms of a read lie 8 banks apart and its eight rows fill them: no conflict.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/matmul/cuda/problem.cuh"
#include "kernels/matmul/cuda/tiles/operand.cuh"
#include "kernels/matmul/cuda/tiles/warp.cuh"

namespace profkit::cuda {

struct RoundedToTf32 {
  __device__ __forceinline__ float operator()(float value) const { return __uint_as_float(to_tf32(value)); }
};

struct Tf32Product {
  __device__ __forceinline__ void operator()(float (&c)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) const {
    mma_m16n8k8_tf32(c, a, b);
  }
};

template <int kSide, Layout kLayoutA, Layout kLayoutB, bool kAligned>
struct Tf32Tiles {
  static constexpr int kDepth = 16;
  using Warp = WarpTile<kSide>;
  using TileA = OperandTile<kSide, kDepth, Warp::kThreads, kLayoutA, kAligned>;
  using TileB = OperandTile<kSide, kDepth, Warp::kThreads, kLayoutB, kAligned>;
  static constexpr int kStageWords = TileA::kWords + TileB::kWords;

  __device__ __forceinline__ static void multiply(typename Warp::Sums& sums, const float* stage) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize, group = lane / 4, term = lane % 4 * 2;
    const float* const from_a = stage + term * TileA::kPitch + Warp::row() + group;
    const float* const from_b = stage + TileA::kWords + term * TileB::kPitch + Warp::column() + group;
#pragma unroll
    for (int depth = 0; depth < kDepth; depth += 8) {
      uint32_t b[Warp::kFragmentColumns][2];
#pragma unroll
      for (int j = 0; j < Warp::kFragmentColumns; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          b[j][half] = __float_as_uint(from_b[(depth + half) * TileB::kPitch + j * 8]);
        }
      }
#pragma unroll
      for (int i = 0; i < Warp::kFragmentRows; ++i) {
        uint32_t a[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          a[part] = __float_as_uint(from_a[(depth + part / 2) * TileA::kPitch + i * 16 + part % 2 * 8]);
        }
#pragma unroll
        for (int j = 0; j < Warp::kFragmentColumns; ++j) Warp::add(sums, i, j, a, b[j], Tf32Product());
      }
    }
  }
};

template <int kSide, Layout kLayoutA, Layout kLayoutB, bool kAligned>
__global__ void __launch_bounds__(WarpTile<kSide>::kThreads)
    matmul_tensor_core_tf32(const MatmulProblem problem, const float* __restrict__ a,
                            const float* __restrict__ b, const float* __restrict__ bias, float* c) {
  using Tiles = Tf32Tiles<kSide, kLayoutA, kLayoutB, kAligned>;
  PROFKIT_SHARED(float, stages, [2 * Tiles::kStageWords]);
  const int first_row = static_cast<int>(blockIdx.x) * kSide,
            first_column = static_cast<int>(blockIdx.y) * kSide;
  a += problem.a_batch_step * blockIdx.z;
  b += problem.b_batch_step * blockIdx.z;
  c += problem.c_batch_step * blockIdx.z;
  typename Tiles::TileA tile_a(a + problem.a_index(first_row, 0), problem.a_row, problem.m - first_row);
  typename Tiles::TileB tile_b(b + problem.b_index(0, first_column), problem.b_row, problem.n - first_column);
  const int first_depth = (problem.k - 1) % Tiles::kDepth + 1;
  tile_a.load_first(first_depth);
  tile_b.load_first(first_depth);
  typename Tiles::Warp::Sums sums = {};
  int stage = 0;
  for (int left = (problem.k - 1) / Tiles::kDepth; left >= 0; --left) {
    // The stage was last read two tiles ago; everybody has passed the barrier of the tile between.
    tile_a.store(stages + stage, RoundedToTf32());
    tile_b.store(stages + stage + Tiles::TileA::kWords, RoundedToTf32());
    __syncthreads();
    if (left > 0) {
      tile_a.load_next();
      tile_b.load_next();
    }
    Tiles::multiply(sums, stages + stage);
    stage ^= Tiles::kStageWords;
  }
  Tiles::Warp::store(problem, c, bias, first_row, first_column, sums);
}

}  // namespace profkit::cuda
