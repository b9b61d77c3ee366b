// A matrix product as CUDA kernels take it: 32-bit sizes, 64-bit offsets, and the bias and ReLU at the end.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

enum class BiasOf { nobody, columns, rows };

struct MatmulProblem {
  int m, n, k;
  int transpose_a, transpose_b;
  int a_row, b_row, c_row;  // elements from one row in memory to the next: of [m][k] or [k][m], and so on
  int64_t a_batch_step, b_batch_step, c_batch_step;
  BiasOf bias_of;
  int has_relu;
  int has_aligned_rows_of_c;  // packs of c can be stored: 128 bits, or pairs from tensor cores

  __device__ __forceinline__ int64_t a_index(int row, int at) const {
    return transpose_a ? static_cast<int64_t>(at) * a_row + row : static_cast<int64_t>(row) * a_row + at;
  }
  __device__ __forceinline__ int64_t b_index(int at, int column) const {
    return transpose_b ? static_cast<int64_t>(column) * b_row + at
                       : static_cast<int64_t>(at) * b_row + column;
  }
  __device__ __forceinline__ int64_t c_index(int row, int column) const {
    return static_cast<int64_t>(row) * c_row + column;
  }
  template <class T>
  __device__ __forceinline__ float finished(float sum, const T* bias, int row, int column) const {
    if (bias_of != BiasOf::nobody) sum += to_float(bias[bias_of == BiasOf::rows ? row : column]);
    return has_relu && sum < 0.0f ? 0.0f : sum;
  }
  // The same for a thread's many sums, each with its row and column in c: conditions are evaluated once.
  template <int kRows, int kColumns, class T, class RowOf, class ColumnOf>
  __device__ __forceinline__ void finish(float (&sums)[kRows][kColumns], const T* bias, const RowOf& row_of,
                                         const ColumnOf& column_of) const {
    if (bias_of == BiasOf::columns) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float value = column_of(j) < n ? to_float(bias[column_of(j)]) : 0.0f;
#pragma unroll
        for (int i = 0; i < kRows; ++i) sums[i][j] += value;
      }
    } else if (bias_of == BiasOf::rows) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float value = row_of(i) < m ? to_float(bias[row_of(i)]) : 0.0f;
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] += value;
      }
    }
    if (has_relu) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] = sums[i][j] < 0.0f ? 0.0f : sums[i][j];
      }
    }
  }
};

}  // namespace profkit::cuda
