// The launchers of the CUDA conv2d kernels, for cuda/rows.cpp.
#pragma once

#include "kernels/conv2d/params.h"
#include "kernels/cuda/registry.h"

namespace profkit {

std::string conv2d_implicit_gemm_cuda_supports(const profkit_conv2d_params& params, const CudaDevice& device);
size_t conv2d_implicit_gemm_cuda_workspace(const profkit_conv2d_params& params, const CudaCall& call);
void conv2d_implicit_gemm_cuda(const profkit_conv2d_params& params, const Buffers& buffers,
                               const CudaCall& call);
std::vector<std::string> conv2d_implicit_gemm_cuda_configurations(const profkit_conv2d_params& params,
                                                                  const CudaDevice& device);
int conv2d_implicit_gemm_cuda_policy(const profkit_conv2d_params& params, const CudaDevice& device);

std::string conv2d_depthwise_cuda_supports(const profkit_conv2d_params& params, const CudaDevice& device);
size_t conv2d_depthwise_cuda_workspace(const profkit_conv2d_params& params, const CudaCall& call);
void conv2d_depthwise_cuda(const profkit_conv2d_params& params, const Buffers& buffers, const CudaCall& call);

std::string conv2d_winograd_cuda_supports(const profkit_conv2d_params& params, const CudaDevice& device);
size_t conv2d_winograd_cuda_workspace(const profkit_conv2d_params& params, const CudaCall& call);
void conv2d_winograd_cuda(const profkit_conv2d_params& params, const Buffers& buffers, const CudaCall& call);
std::vector<std::string> conv2d_winograd_cuda_configurations(const profkit_conv2d_params& params,
                                                             const CudaDevice& device);
int conv2d_winograd_cuda_policy(const profkit_conv2d_params& params, const CudaDevice& device);

std::string conv2d_im2col_cuda_supports(const profkit_conv2d_params& params, const CudaDevice& device);
size_t conv2d_im2col_cuda_workspace(const profkit_conv2d_params& params, const CudaCall& call);
void conv2d_im2col_cuda(const profkit_conv2d_params& params, const Buffers& buffers, const CudaCall& call);

std::string conv2d_im2col_batched_cuda_supports(const profkit_conv2d_params& params,
                                                const CudaDevice& device);
size_t conv2d_im2col_batched_cuda_workspace(const profkit_conv2d_params& params, const CudaCall& call);
void conv2d_im2col_batched_cuda(const profkit_conv2d_params& params, const Buffers& buffers,
                                const CudaCall& call);

std::string conv2d_direct_cuda_supports(const profkit_conv2d_params& params, const CudaDevice& device);
void conv2d_direct_cuda(const profkit_conv2d_params& params, const Buffers& buffers, const CudaCall& call);

}  // namespace profkit
