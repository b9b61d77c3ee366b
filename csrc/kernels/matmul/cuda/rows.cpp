// The CUDA kernels of matmul, best known first, the simplest last.
#include "kernels/cuda/rows.h"
#include "kernels/matmul/params.h"

namespace profkit {

extern const CudaEntry<profkit_matmul_params> matmul_tensor_core_cuda, matmul_double_buffered_cuda,
    matmul_split_k_cuda, matmul_batched_cuda, matmul_tensor_core_tf32_cuda, matmul_vectorized_cuda,
    matmul_register_tiled_cuda, matmul_tiled_shared_cuda, matmul_coalesced_cuda, matmul_naive_cuda;

PROFKIT_CUDA_ROWS(matmul, {"matmul/native/cuda/tensor_core", matmul_tensor_core_cuda},
                  {"matmul/native/cuda/double_buffered", matmul_double_buffered_cuda},
                  {"matmul/native/cuda/split_k", matmul_split_k_cuda},
                  {"matmul/native/cuda/batched", matmul_batched_cuda},
                  // Behind those that compute in float32: it rounds its operands.
                  {"matmul/native/cuda/tensor_core_tf32", matmul_tensor_core_tf32_cuda},
                  {"matmul/native/cuda/vectorized", matmul_vectorized_cuda},
                  {"matmul/native/cuda/register_tiled", matmul_register_tiled_cuda},
                  {"matmul/native/cuda/tiled_shared", matmul_tiled_shared_cuda},
                  {"matmul/native/cuda/coalesced", matmul_coalesced_cuda},
                  {"matmul/native/cuda/naive", matmul_naive_cuda})

}  // namespace profkit
