// The bias_relu kernels that cpu/kernels.cpp lists.
#pragma once

#include "kernels/bias_relu/params.h"
#include "kernels/registry.h"

namespace profkit {

Kernel<profkit_bias_relu_params> bias_relu_vectorized_row();

void bias_relu_reference(const profkit_bias_relu_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
