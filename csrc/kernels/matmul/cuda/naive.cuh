// One thread per element of c, neighbouring threads in neighbouring rows: every load of a and store of c is
// scattered over as many memory sectors as a warp has lanes. The bottom of the ladder.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/matmul/cuda/problem.cuh"

namespace profkit::cuda {

// One element of c; also what `coalesced` does, only for other elements per warp.
template <class T>
__device__ __forceinline__ void matmul_element(const MatmulProblem& problem, int row, int column, const T* a,
                                               const T* b, const T* bias, T* c) {
  if (row >= problem.m || column >= problem.n) return;
  a += problem.a_batch_step * blockIdx.z;
  b += problem.b_batch_step * blockIdx.z;
  c += problem.c_batch_step * blockIdx.z;
  float sum = 0;
  for (int k = 0; k < problem.k; ++k) {
    sum += to_float(a[problem.a_index(row, k)]) * to_float(b[problem.b_index(k, column)]);
  }
  c[problem.c_index(row, column)] = from_float<T>(problem.finished(sum, bias, row, column));
}

template <class T>
__global__ void matmul_naive(const MatmulProblem problem, const T* a, const T* b, const T* bias, T* c) {
  matmul_element(problem, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x),
                 static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y), a, b, bias, c);
}

}  // namespace profkit::cuda
