// The pool2d kernels that registry.cpp lists.
#pragma once

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

void pool2d_reference(const profkit_pool2d_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
