// The conv2d kernels that cpu/kernels.cpp lists.
#pragma once

#include "kernels/conv2d/params.h"
#include "kernels/registry.h"

namespace profkit {

Kernel<profkit_conv2d_params> conv2d_implicit_gemm_row();
Kernel<profkit_conv2d_params> conv2d_skip_padding_row();
Kernel<profkit_conv2d_params> conv2d_winograd_8x8_row();
Kernel<profkit_conv2d_params> conv2d_winograd_6x6_row();
Kernel<profkit_conv2d_params> conv2d_direct_row();
Kernel<profkit_conv2d_params> conv2d_im2col_row();
Kernel<profkit_conv2d_params> conv2d_im2col_batched_row();

void conv2d_reference(const profkit_conv2d_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
