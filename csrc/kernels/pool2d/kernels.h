// The pool2d kernels that registry.cpp lists.
#pragma once

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

std::string pool2d_separable_supports(const profkit_pool2d_params& params);
size_t pool2d_separable_workspace_bytes(const profkit_pool2d_params& params, int threads);
void pool2d_separable(const profkit_pool2d_params& params, const Buffers& buffers, int threads);

// The gradient is in cpu_reference_gradient.cpp; pool2d_reference runs either direction.
void pool2d_reference_gradient(const profkit_pool2d_params& params, const Buffers& buffers, int threads);
void pool2d_reference(const profkit_pool2d_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
