// The conv2d kernels that registry.cpp lists.
#pragma once

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

std::string conv2d_direct_supports(const profkit_conv2d_params& params);
size_t conv2d_direct_workspace_bytes(const profkit_conv2d_params& params, int threads);
void conv2d_direct(const profkit_conv2d_params& params, const Buffers& buffers, int threads);
CpuTuning<profkit_conv2d_params> conv2d_direct_tuning();
size_t conv2d_im2col_workspace_bytes(const profkit_conv2d_params& params, int threads);
void conv2d_im2col(const profkit_conv2d_params& params, const Buffers& buffers, int threads);
CpuTuning<profkit_conv2d_params> conv2d_im2col_tuning();
size_t conv2d_im2col_batched_workspace_bytes(const profkit_conv2d_params& params, int threads);
void conv2d_im2col_batched(const profkit_conv2d_params& params, const Buffers& buffers, int threads);
CpuTuning<profkit_conv2d_params> conv2d_im2col_batched_tuning();
size_t conv2d_implicit_gemm_workspace_bytes(const profkit_conv2d_params& params, int threads);
void conv2d_implicit_gemm(const profkit_conv2d_params& params, const Buffers& buffers, int threads);
CpuTuning<profkit_conv2d_params> conv2d_implicit_gemm_tuning();

void conv2d_reference(const profkit_conv2d_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
