// The pool2d kernels that cpu/kernels.cpp lists.
#pragma once

#include "kernels/pool2d/params.h"
#include "kernels/registry.h"

namespace profkit {

Kernel<profkit_pool2d_params> pool2d_separable_row();

// The gradient is in cpu/reference_gradient.cpp; pool2d_reference runs either direction.
void pool2d_reference_gradient(const profkit_pool2d_params& params, const Buffers& buffers, int threads);
void pool2d_reference(const profkit_pool2d_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
