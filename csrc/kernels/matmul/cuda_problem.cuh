// A matrix product as CUDA kernels take it: 32-bit sizes, 64-bit offsets, and the bias and ReLU at the end.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

struct MatmulProblem {
  int m, n, k;
  int transpose_a, transpose_b, has_bias, has_relu;
  int64_t a_batch_step, b_batch_step, c_batch_step;

  __device__ __forceinline__ int64_t a_index(int row, int at) const {
    return transpose_a ? static_cast<int64_t>(at) * m + row : static_cast<int64_t>(row) * k + at;
  }
  __device__ __forceinline__ int64_t b_index(int at, int column) const {
    return transpose_b ? static_cast<int64_t>(column) * k + at : static_cast<int64_t>(at) * n + column;
  }
  template <class T>
  __device__ __forceinline__ float finished(float sum, const T* bias, int column) const {
    if (has_bias) sum += to_float(bias[column]);
    return has_relu && sum < 0.0f ? 0.0f : sum;
  }
};

}  // namespace profkit::cuda
