// 16-bit operands on tensor cores, sums in float32: a warp multiplies fragments of 16x16 by 16x8. Three tiles
// of 32 terms are in shared memory, one being multiplied while two are on their way by asynchronous copies.
// Bound by the tensor cores where rows are aligned, by single-element loads elsewhere. Needs sm_80.
#pragma once

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/matmul/cuda/problem.cuh"
#include "kernels/matmul/cuda/tiles/half.cuh"
#include "kernels/matmul/cuda/tiles/warp.cuh"

namespace profkit::cuda {

template <class T>
struct HalfProduct;
template <>
struct HalfProduct<__half> {
  __device__ __forceinline__ void operator()(float (&c)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) const {
    mma_m16n8k16_f16(c, a, b);
  }
};
template <>
struct HalfProduct<__nv_bfloat16> {
  __device__ __forceinline__ void operator()(float (&c)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) const {
    mma_m16n8k16_bf16(c, a, b);
  }
};

template <class T, int kSide, Layout kLayoutA, Layout kLayoutB, bool kAligned>
struct TensorCoreTiles {
  static constexpr int kDepth = 32, kStages = 3;
  using Warp = WarpTile<kSide>;
  using TileA = HalfTile<T, kSide, kDepth, Warp::kThreads, kLayoutA, kAligned>;
  using TileB = HalfTile<T, kSide, kDepth, Warp::kThreads, kLayoutB, kAligned>;
  static constexpr int kStageElements = TileA::kElements + TileB::kElements;
  static constexpr int kSharedBytes = kStages * kStageElements * static_cast<int>(sizeof(T));

  __device__ __forceinline__ static int next_stage(int stage) {
    return stage == (kStages - 1) * kStageElements ? 0 : stage + kStageElements;
  }

  __device__ __forceinline__ static void multiply(typename Warp::Sums& sums, const T* stage) {
#pragma unroll
    for (int depth = 0; depth < kDepth; depth += 16) {
      uint32_t b[Warp::kFragmentColumns / 2][4];
#pragma unroll
      for (int j = 0; j < Warp::kFragmentColumns / 2; ++j) {
        TileB::template load_fragment<Second::depth>(b[j], stage + TileA::kElements, Warp::column() + j * 16,
                                                     depth);
      }
#pragma unroll
      for (int i = 0; i < Warp::kFragmentRows; ++i) {
        uint32_t a[4];
        TileA::template load_fragment<Second::across>(a, stage, Warp::row() + i * 16, depth);
#pragma unroll
        for (int j = 0; j < Warp::kFragmentColumns; ++j) {
          const uint32_t own_b[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
          Warp::add(sums, i, j, a, own_b, HalfProduct<T>());
        }
      }
    }
  }
};

template <class T, int kSide, Layout kLayoutA, Layout kLayoutB, bool kAligned>
__global__ void __launch_bounds__(WarpTile<kSide>::kThreads)
    matmul_tensor_core(const MatmulProblem problem, const T* __restrict__ a, const T* __restrict__ b,
                       const T* __restrict__ bias, T* c) {
  using Tiles = TensorCoreTiles<T, kSide, kLayoutA, kLayoutB, kAligned>;
  PROFKIT_DYNAMIC_SHARED(T, stages);
  const int first_row = static_cast<int>(blockIdx.x) * kSide,
            first_column = static_cast<int>(blockIdx.y) * kSide;
  a += problem.a_batch_step * blockIdx.z;
  b += problem.b_batch_step * blockIdx.z;
  c += problem.c_batch_step * blockIdx.z;
  typename Tiles::TileA tile_a(a + problem.a_index(first_row, 0), problem.a_row, problem.m - first_row,
                               problem.k, !problem.transpose_a);
  typename Tiles::TileB tile_b(b + problem.b_index(0, first_column), problem.b_row, problem.n - first_column,
                               problem.k, problem.transpose_b);
  const int tiles = divide_up(problem.k, Tiles::kDepth);
  int reading = 0, writing = 0;  // stages, as offsets
  const auto copy_tile = [&](bool is_any) {
    if (is_any) {
      tile_a.copy_next(stages + writing);
      tile_b.copy_next(stages + writing + Tiles::TileA::kElements);
      writing = Tiles::next_stage(writing);
    }
    // A group even without copies: the number of groups says which tile has arrived.
    copy_async_commit();
  };
#pragma unroll
  for (int tile = 0; tile < Tiles::kStages - 1; ++tile) copy_tile(tile < tiles);
  typename Tiles::Warp::Sums sums = {};
  for (int tile = 0; tile < tiles; ++tile) {
    copy_async_wait<Tiles::kStages - 2>();
    // All of the tile has arrived, and no thread still multiplies the one before, whose buffer is filled
    // next.
    __syncthreads();
    copy_tile(tile + Tiles::kStages - 1 < tiles);
    Tiles::multiply(sums, stages + reading);
    reading = Tiles::next_stage(reading);
  }
  copy_async_wait<0>();  // for the groups without copies
  Tiles::Warp::store(problem, c, bias, first_row, first_column, sums);
}

}  // namespace profkit::cuda
