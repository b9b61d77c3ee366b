// The matmul kernels that cpu/kernels.cpp lists.
#pragma once

#include "kernels/matmul/params.h"
#include "kernels/registry.h"

namespace profkit {

Kernel<profkit_matmul_params> matmul_blocked_row();

void matmul_reference(const profkit_matmul_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
