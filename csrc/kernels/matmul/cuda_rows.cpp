// The CUDA kernels of matmul, best known first, the simplest last.
#include "kernels/matmul/cuda_kernels.h"

namespace profkit {

const std::vector<CudaKernel<profkit_matmul_params>>& matmul_cuda_kernels() {
  static const auto rows = unique_cuda_rows<profkit_matmul_params>({
      {"matmul/native/cuda/naive", matmul_naive_cuda_supports, no_cuda_workspace, matmul_naive_cuda},
  });
  return rows;
}

}  // namespace profkit
