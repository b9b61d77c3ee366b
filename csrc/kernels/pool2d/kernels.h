// The pool2d kernels that registry.cpp lists.
#pragma once

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

size_t pool2d_separable_workspace_bytes(const profkit_pool2d_params& params, int threads);
void pool2d_separable(const profkit_pool2d_params& params, const Buffers& buffers, int threads);

void pool2d_reference(const profkit_pool2d_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
