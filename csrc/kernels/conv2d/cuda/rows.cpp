// The CUDA kernels of conv2d, best known first, the simplest last.
#include "kernels/cuda/rows.h"
#include "kernels/conv2d/params.h"

namespace profkit {

extern const CudaEntry<profkit_conv2d_params> conv2d_depthwise_cuda, conv2d_winograd_cuda,
    conv2d_implicit_gemm_cuda, conv2d_im2col_batched_cuda, conv2d_im2col_cuda, conv2d_direct_cuda;

PROFKIT_CUDA_ROWS(conv2d, {"conv2d/native/cuda/depthwise", conv2d_depthwise_cuda},
                  {"conv2d/native/cuda/winograd", conv2d_winograd_cuda},
                  {"conv2d/native/cuda/implicit_gemm", conv2d_implicit_gemm_cuda},
                  {"conv2d/native/cuda/im2col_batched", conv2d_im2col_batched_cuda},
                  {"conv2d/native/cuda/im2col", conv2d_im2col_cuda},
                  {"conv2d/native/cuda/direct", conv2d_direct_cuda})

}  // namespace profkit
