// The functions of the CUDA conv2d kernels' rows (cuda/rows.cpp).
#pragma once

#include "kernels/conv2d/params.h"
#include "kernels/cuda/registry.h"

namespace profkit {

CudaSupports<profkit_conv2d_params> conv2d_depthwise_cuda_supports, conv2d_winograd_cuda_supports,
    conv2d_implicit_gemm_cuda_supports, conv2d_im2col_batched_cuda_supports, conv2d_im2col_cuda_supports,
    conv2d_direct_cuda_supports;
CudaWorkspace<profkit_conv2d_params> conv2d_depthwise_cuda_workspace, conv2d_winograd_cuda_workspace,
    conv2d_implicit_gemm_cuda_workspace, conv2d_im2col_batched_cuda_workspace, conv2d_im2col_cuda_workspace;
CudaLaunch<profkit_conv2d_params> conv2d_depthwise_cuda, conv2d_winograd_cuda, conv2d_implicit_gemm_cuda,
    conv2d_im2col_batched_cuda, conv2d_im2col_cuda, conv2d_direct_cuda;
CudaConfigurations<profkit_conv2d_params> conv2d_winograd_cuda_configurations,
    conv2d_implicit_gemm_cuda_configurations;
CudaPolicy<profkit_conv2d_params> conv2d_winograd_cuda_policy, conv2d_implicit_gemm_cuda_policy;

}  // namespace profkit
