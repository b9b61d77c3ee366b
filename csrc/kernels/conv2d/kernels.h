// The conv2d kernels that registry.cpp lists.
#pragma once

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

void conv2d_reference(const profkit_conv2d_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
