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
std::string matmul_on_device_supports(const profkit_matmul_params& params, const CudaDevice& device);
void matmul_on_device(const profkit_matmul_params& params, const MatmulOperands& operands,
                      const CudaCall& call);

std::string matmul_naive_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device);
void matmul_naive_cuda(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call);

std::string matmul_coalesced_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device);
void matmul_coalesced_cuda(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call);

std::string matmul_tiled_shared_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device);
std::vector<std::string> matmul_tiled_shared_cuda_configurations(const profkit_matmul_params& params,
                                                                 const CudaDevice& device);
int matmul_tiled_shared_cuda_policy(const profkit_matmul_params& params, const CudaDevice& device);
void matmul_tiled_shared_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                              const CudaCall& call);

std::string matmul_register_tiled_cuda_supports(const profkit_matmul_params& params,
                                                const CudaDevice& device);
std::vector<std::string> matmul_register_tiled_cuda_configurations(const profkit_matmul_params& params,
                                                                   const CudaDevice& device);
int matmul_register_tiled_cuda_policy(const profkit_matmul_params& params, const CudaDevice& device);
void matmul_register_tiled_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                                const CudaCall& call);

// double_buffered and batched have blocks of 128x128 or 64x64.
std::vector<std::string> matmul_tiles_cuda_configurations(const profkit_matmul_params& params,
                                                          const CudaDevice& device);
int matmul_tiles_cuda_policy(const profkit_matmul_params& params, const CudaDevice& device);

std::string matmul_vectorized_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device);
void matmul_vectorized_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                            const CudaCall& call);

std::string matmul_double_buffered_cuda_supports(const profkit_matmul_params& params,
                                                 const CudaDevice& device);
void matmul_double_buffered_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                                 const CudaCall& call);

std::string matmul_batched_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device);
size_t matmul_batched_cuda_workspace(const profkit_matmul_params& params, const CudaCall& call);
void matmul_batched_cuda(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call);

std::string matmul_split_k_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device);
std::vector<std::string> matmul_split_k_cuda_configurations(const profkit_matmul_params& params,
                                                            const CudaDevice& device);
int matmul_split_k_cuda_policy(const profkit_matmul_params& params, const CudaDevice& device);
size_t matmul_split_k_cuda_workspace(const profkit_matmul_params& params, const CudaCall& call);
void matmul_split_k_cuda(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call);

// Of both tensor_core kernels.
std::vector<std::string> matmul_tensor_core_cuda_configurations(const profkit_matmul_params& params,
                                                                const CudaDevice& device);
int matmul_tensor_core_cuda_policy(const profkit_matmul_params& params, const CudaDevice& device);

std::string matmul_tensor_core_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device);
void matmul_tensor_core_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                             const CudaCall& call);

std::string matmul_tensor_core_tf32_cuda_supports(const profkit_matmul_params& params,
                                                  const CudaDevice& device);
void matmul_tensor_core_tf32_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                                  const CudaCall& call);

}  // namespace profkit
