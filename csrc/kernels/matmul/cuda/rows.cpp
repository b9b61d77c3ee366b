// The CUDA kernels of matmul, best known first, the simplest last.
#include "kernels/matmul/cuda/kernels.h"

namespace profkit {

const std::vector<CudaKernel<profkit_matmul_params>>& matmul_cuda_kernels() {
  static const auto rows = unique_rows<CudaKernel<profkit_matmul_params>>({
      {"matmul/native/cuda/tensor_core", matmul_tensor_core_cuda_supports, no_cuda_workspace,
       matmul_tensor_core_cuda, matmul_tensor_core_cuda_configurations, matmul_tensor_core_cuda_policy},
      {"matmul/native/cuda/double_buffered", matmul_double_buffered_cuda_supports, no_cuda_workspace,
       matmul_double_buffered_cuda, matmul_tiles_cuda_configurations, matmul_tiles_cuda_policy},
      {"matmul/native/cuda/split_k", matmul_split_k_cuda_supports, matmul_split_k_cuda_workspace,
       matmul_split_k_cuda, matmul_split_k_cuda_configurations, matmul_split_k_cuda_policy},
      {"matmul/native/cuda/batched", matmul_batched_cuda_supports, matmul_batched_cuda_workspace,
       matmul_batched_cuda, matmul_tiles_cuda_configurations, matmul_tiles_cuda_policy},
      // Behind those that compute in float32: it rounds its operands.
      {"matmul/native/cuda/tensor_core_tf32", matmul_tensor_core_tf32_cuda_supports, no_cuda_workspace,
       matmul_tensor_core_tf32_cuda, matmul_tensor_core_cuda_configurations, matmul_tensor_core_cuda_policy},
      {"matmul/native/cuda/vectorized", matmul_vectorized_cuda_supports, no_cuda_workspace,
       matmul_vectorized_cuda},
      {"matmul/native/cuda/register_tiled", matmul_register_tiled_cuda_supports, no_cuda_workspace,
       matmul_register_tiled_cuda, matmul_register_tiled_cuda_configurations,
       matmul_register_tiled_cuda_policy},
      {"matmul/native/cuda/tiled_shared", matmul_tiled_shared_cuda_supports, no_cuda_workspace,
       matmul_tiled_shared_cuda, matmul_tiled_shared_cuda_configurations, matmul_tiled_shared_cuda_policy},
      {"matmul/native/cuda/coalesced", matmul_coalesced_cuda_supports, no_cuda_workspace,
       matmul_coalesced_cuda},
      {"matmul/native/cuda/naive", matmul_naive_cuda_supports, no_cuda_workspace, matmul_naive_cuda},
  });
  return rows;
}

}  // namespace profkit
