// Improves on `vectorized` by hiding latency. While a tile of 8 terms is multiplied, the next one is loaded
// from global memory into registers; it is stored into the other of two shared buffers (one barrier per tile
// instead of two), and the operands of the next term are read while those of this one are multiplied. The
// main loop has no bounds checks: the tile that may be short comes first, and elements outside a or b are not
// read. Bound by the multiply-add units: 512 of them per thread and tile against 32 shared reads, 2 global
// loads and up to 8 shared stores.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/matmul/cuda/problem.cuh"
#include "kernels/matmul/cuda/tiles/operand.cuh"
#include "kernels/matmul/cuda/tiles/thread.cuh"

namespace profkit::cuda {

// What else than a batch in equal steps the blocks along z can be; `split_k` and `batched` use it.
struct BlockWork {
  int slices = 1;       // the sum over k is split: block z has slice z % slices of product z / slices
  int slice_terms = 0;  // of all slices but the last, which has the rest
  const float* const* a_of = nullptr;  // where each product's operands lie, instead of steps
  const float* const* b_of = nullptr;
  float* const* c_of = nullptr;
};

// One block's tile: 8x8 sums per thread, terms [first_term, first_term + terms); terms >= 1.
template <int kRows, int kColumns, Layout kLayoutA, Layout kLayoutB, bool kAligned>
struct DoubleBuffered {
  static constexpr int kDepth = 8;
  static constexpr int kThreads = kRows * kColumns / (kThreadSide * kThreadSide);
  using TileA = OperandTile<kRows, kDepth, kThreads, kLayoutA, kAligned>;
  using TileB = OperandTile<kColumns, kDepth, kThreads, kLayoutB, kAligned>;
  static constexpr int kStageWords = TileA::kWords + TileB::kWords;

  __device__ __forceinline__ static void sum_up(const MatmulProblem& problem, const float* a, const float* b,
                                                int first_row, int first_column, int first_term, int terms,
                                                float (&sums)[kThreadSide][kThreadSide]) {
    PROFKIT_SHARED(float, stages, [2 * kStageWords]);
    TileA tile_a(a + problem.a_index(first_row, first_term), problem.a_row, problem.m - first_row);
    TileB tile_b(b + problem.b_index(first_term, first_column), problem.b_row, problem.n - first_column);
    const int first_depth = (terms - 1) % kDepth + 1;
    tile_a.load_first(first_depth);
    tile_b.load_first(first_depth);
    tile_a.store(stages);
    tile_b.store(stages + TileA::kWords);
    __syncthreads();

    const ThreadPlace place = thread_place<kColumns>(static_cast<int>(threadIdx.x));
    // Where the thread reads, in the stage that is multiplied; `step` leads into the other one.
    int from_a = place.row, from_b = TileA::kWords + place.column, step = kStageWords;
    float fragment_a[2][kThreadSide], fragment_b[2][kThreadSide];
    load_fragment(fragment_a[0], stages + from_a, kWarpRows / 2);
    load_fragment(fragment_b[0], stages + from_b, kWarpColumns / 2);
    int stage = 0;
    for (int left = (terms - 1) / kDepth; left > 0; --left) {
      tile_a.load_next();
      tile_b.load_next();
#pragma unroll
      for (int depth = 0; depth < kDepth; ++depth) {
        if (depth == kDepth - 1) {
          // No thread reads the other stage: its last operands were read before the previous barrier.
          stage ^= kStageWords;
          tile_a.store(stages + stage);
          tile_b.store(stages + stage + TileA::kWords);
          __syncthreads();
          from_a += step, from_b += step;
          step = -step;
        }
        const int next = (depth + 1) % kDepth;
        load_fragment(fragment_a[next % 2], stages + from_a + next * TileA::kPitch, kWarpRows / 2);
        load_fragment(fragment_b[next % 2], stages + from_b + next * TileB::kPitch, kWarpColumns / 2);
        add_outer_product(sums, fragment_a[depth % 2], fragment_b[depth % 2]);
      }
    }
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      const int next = depth + 1;
      if (next < kDepth) {
        load_fragment(fragment_a[next % 2], stages + from_a + next * TileA::kPitch, kWarpRows / 2);
        load_fragment(fragment_b[next % 2], stages + from_b + next * TileB::kPitch, kWarpColumns / 2);
      }
      add_outer_product(sums, fragment_a[depth % 2], fragment_b[depth % 2]);
    }
  }
};

template <int kRows, int kColumns, Layout kLayoutA, Layout kLayoutB, bool kAligned>
__global__ void __launch_bounds__(kRows* kColumns / 64, tiles_per_multiprocessor(kRows* kColumns / 64))
    matmul_double_buffered(const MatmulProblem problem, const BlockWork work, const float* __restrict__ a,
                           const float* __restrict__ b, const float* __restrict__ bias, float* c) {
  using Block = DoubleBuffered<kRows, kColumns, kLayoutA, kLayoutB, kAligned>;
  const int first_row = static_cast<int>(blockIdx.x) * kRows,
            first_column = static_cast<int>(blockIdx.y) * kColumns;
  const int product = static_cast<int>(blockIdx.z) / work.slices,
            slice = static_cast<int>(blockIdx.z) % work.slices;
  a = work.a_of != nullptr ? work.a_of[product] : a + problem.a_batch_step * product;
  b = work.b_of != nullptr ? work.b_of[product] : b + problem.b_batch_step * product;
  const int first_term = slice * work.slice_terms;
  const int terms = slice == work.slices - 1 ? problem.k - first_term : work.slice_terms;
  float sums[kThreadSide][kThreadSide] = {};
  Block::sum_up(problem, a, b, first_row, first_column, first_term, terms, sums);
  const ReloadedIndices at;
  // Each slice has its own result.
  c = work.c_of != nullptr ? work.c_of[at.block_z] : c + problem.c_batch_step * at.block_z;
  const ThreadPlace place = thread_place<kColumns>(at.thread);
  store_thread_tile(problem, c, bias, at.block_x * kRows + place.row, at.block_y * kColumns + place.column,
                    sums);
}

}  // namespace profkit::cuda
