// The launchers of the CUDA matmul kernels, for cuda/rows.cpp, and the product that other operators use.
#pragma once

#include "kernels/cuda/registry.h"
#include "kernels/matmul/params.h"

namespace profkit {

// Where the matrices of a product lie in device memory: rows may be longer than what the product uses of
// them, and a batch step of zero uses a matrix again.
struct MatmulOperands {
  const void *a, *b, *bias;  // the bias is read only when params.bias says so
  void* c;
  int64_t a_row, b_row, c_row;  // elements from one row in memory to the next, at most 2^25
  int64_t a_batch_step, b_batch_step, c_batch_step;
  bool bias_of_rows = false;  // one value per row of c, as a convolution over [channels][pixels] needs
};

// Matrices without gaps, as params.h has them.
MatmulOperands contiguous_operands(const profkit_matmul_params& params, const Buffers& buffers);

// A float32 product of any size and transposition on device pointers, for operators that are made of
// products: empty from `supports` means that `matmul_on_device` takes it. It needs no workspace.
CudaSupports<profkit_matmul_params> matmul_on_device_supports;
void matmul_on_device(const profkit_matmul_params& params, const MatmulOperands& operands,
                      const CudaCall& call);

// The functions of the rows.
CudaSupports<profkit_matmul_params> matmul_tensor_core_cuda_supports, matmul_tensor_core_tf32_cuda_supports,
    matmul_double_buffered_cuda_supports, matmul_split_k_cuda_supports, matmul_batched_cuda_supports,
    matmul_vectorized_cuda_supports, matmul_register_tiled_cuda_supports, matmul_tiled_shared_cuda_supports,
    matmul_coalesced_cuda_supports, matmul_naive_cuda_supports;
CudaWorkspace<profkit_matmul_params> matmul_split_k_cuda_workspace, matmul_batched_cuda_workspace;
CudaLaunch<profkit_matmul_params> matmul_tensor_core_cuda, matmul_tensor_core_tf32_cuda,
    matmul_double_buffered_cuda, matmul_split_k_cuda, matmul_batched_cuda, matmul_vectorized_cuda,
    matmul_register_tiled_cuda, matmul_tiled_shared_cuda, matmul_coalesced_cuda, matmul_naive_cuda;
// matmul_tiles: blocks of 128x128 or 64x64, of double_buffered and batched; matmul_tensor_core: of both
// tensor_core kernels.
CudaConfigurations<profkit_matmul_params> matmul_tensor_core_cuda_configurations,
    matmul_tiles_cuda_configurations, matmul_split_k_cuda_configurations,
    matmul_register_tiled_cuda_configurations, matmul_tiled_shared_cuda_configurations;
CudaPolicy<profkit_matmul_params> matmul_tensor_core_cuda_policy, matmul_tiles_cuda_policy,
    matmul_split_k_cuda_policy, matmul_register_tiled_cuda_policy, matmul_tiled_shared_cuda_policy;

}  // namespace profkit
