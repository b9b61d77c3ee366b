// The part of a tile that a warp sums up with tensor cores: kSide / 2 rows x 32 columns as fragments of
// 16 x 8, and how it leaves, with bias and ReLU. A lane's elements are pairs of neighbouring columns.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/matmul/cuda/problem.cuh"

namespace profkit::cuda {

template <int kSide>
struct WarpTile {
  static constexpr int kRows = kSide / 2, kColumns = 32;
  static constexpr int kThreads = kSide / kRows * (kSide / kColumns) * kWarpSize;
  static constexpr int kFragmentRows = kRows / 16, kFragmentColumns = kColumns / 8;
  // By row and column within the lane: fragments have two rows, 8 apart, of two neighbours each.
  using Sums = float[kFragmentRows * 2][kFragmentColumns * 2];

  __device__ __forceinline__ static int row() {
    return static_cast<int>(threadIdx.x) / kWarpSize % (kSide / kRows) * kRows;
  }
  __device__ __forceinline__ static int column() {
    return static_cast<int>(threadIdx.x) / kWarpSize / (kSide / kRows) * kColumns;
  }

  // sums of fragment (i, j) += a b, by `product(c, a, b)`.
  template <class Product, class A, class B>
  __device__ __forceinline__ static void add(Sums& sums, int i, int j, const A& a, const B& b,
                                             const Product& product) {
    float c[4] = {sums[i * 2][j * 2], sums[i * 2][j * 2 + 1], sums[i * 2 + 1][j * 2],
                  sums[i * 2 + 1][j * 2 + 1]};
    product(c, a, b);
    sums[i * 2][j * 2] = c[0], sums[i * 2][j * 2 + 1] = c[1];
    sums[i * 2 + 1][j * 2] = c[2], sums[i * 2 + 1][j * 2 + 1] = c[3];
  }

  // `first_row` and `first_column` are the block's. `has_aligned_rows_of_c` promises pairs.
  template <class T>
  __device__ __forceinline__ static void store(const MatmulProblem& problem, T* c, const T* bias,
                                               int first_row, int first_column, Sums& sums) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    first_row += row() + lane / 4;
    first_column += column() + lane % 4 * 2;
    const auto row_of = [&](int i) { return first_row + i * 8; };
    const auto column_of = [&](int j) { return first_column + j / 2 * 8 + j % 2; };
    problem.finish(sums, bias, row_of, column_of);
#pragma unroll
    for (int i = 0; i < kFragmentRows * 2; ++i) {
      if (row_of(i) >= problem.m) continue;
#pragma unroll
      for (int j = 0; j < kFragmentColumns * 2; j += 2) {
        T* const target = c + problem.c_index(row_of(i), column_of(j));
        const T first = from_float<T>(sums[i][j]), second = from_float<T>(sums[i][j + 1]);
        if (problem.has_aligned_rows_of_c) {
          if (column_of(j) < problem.n) store_pack(target, Pack<T, 2>{{first, second}});
        } else {
          if (column_of(j) < problem.n) target[0] = first;
          if (column_of(j + 1) < problem.n) target[1] = second;
        }
      }
    }
  }
};

}  // namespace profkit::cuda
