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
  int has_aligned_rows_of_c;  // 128-bit stores are possible

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
  // Four neighbours of a row that begin inside c.
  __device__ __forceinline__ void store_four(float* c, const float* bias, int row, int column, float s0,
                                             float s1, float s2, float s3) const {
    float* const target = c + c_index(row, column);
    if (has_aligned_rows_of_c) {
      *reinterpret_cast<float4*>(target) =
          make_float4(finished(s0, bias, row, column), finished(s1, bias, row, column + 1),
                      finished(s2, bias, row, column + 2), finished(s3, bias, row, column + 3));
    } else {
      target[0] = finished(s0, bias, row, column);
      if (column + 1 < n) target[1] = finished(s1, bias, row, column + 1);
      if (column + 2 < n) target[2] = finished(s2, bias, row, column + 2);
      if (column + 3 < n) target[3] = finished(s3, bias, row, column + 3);
    }
  }
};

}  // namespace profkit::cuda
