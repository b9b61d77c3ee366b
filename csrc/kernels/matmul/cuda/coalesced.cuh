// Improves on `naive`: neighbouring threads have neighbouring columns, so that a warp reads b and stores c in
// whole sectors and shares each element of a. Bound by the caches: two loads per multiply-add.
#pragma once

#include "kernels/matmul/cuda/naive.cuh"

namespace profkit::cuda {

template <class T>
__global__ void matmul_coalesced(const MatmulProblem problem, const T* a, const T* b, const T* bias, T* c) {
  matmul_element(problem, static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y),
                 static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x), a, b, bias, c);
}

}  // namespace profkit::cuda
