// The conv2d kernels that registry.cpp lists.
#pragma once

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

size_t conv2d_implicit_gemm_workspace_bytes(const profkit_conv2d_params& params, int threads);
void conv2d_implicit_gemm(const profkit_conv2d_params& params, const Buffers& buffers, int threads);

void conv2d_reference(const profkit_conv2d_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
