// For results of few tiles with long sums: the terms are split over several blocks (`double_buffered` with
// slices), each of which writes its own partial result, and this kernel adds the partial results in a fixed
// order, so that equal inputs give equal results. Bound by memory: every partial result is read once.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/matmul/cuda/problem.cuh"

namespace profkit::cuda {

// `partial` is [batch][slices][m][n]; one thread per element of c, blocks in x over a product's elements.
template <class T>
__global__ void matmul_split_k_sum(const MatmulProblem problem, int slices, const float* partial,
                                   const T* bias, T* c) {
  const int64_t elements = static_cast<int64_t>(problem.m) * problem.n;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= elements) return;
  const int row = static_cast<int>(at / problem.n), column = static_cast<int>(at % problem.n);
  partial += elements * slices * blockIdx.z;
  c += problem.c_batch_step * blockIdx.z;
  float sum = 0;
  for (int slice = 0; slice < slices; ++slice) sum += partial[slice * elements + at];
  c[problem.c_index(row, column)] = from_float<T>(problem.finished(sum, bias, row, column));
}

}  // namespace profkit::cuda
