// Products of matrices anywhere in device memory, given by a table of pointers, as in cuBLAS's batched (not
// strided) calls. The product is `double_buffered`; this kernel writes the table for matrices at equal steps.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/matmul/cuda/problem.cuh"

namespace profkit::cuda {

template <class T>
__global__ void matmul_batched_pointers(const MatmulProblem problem, int batch, const T* a, const T* b, T* c,
                                        const T** a_of, const T** b_of, T** c_of) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= batch) return;
  a_of[at] = a + problem.a_batch_step * at;
  b_of[at] = b + problem.b_batch_step * at;
  c_of[at] = c + problem.c_batch_step * at;
}

}  // namespace profkit::cuda
