// The softmax kernels that cpu/kernels.cpp lists.
#pragma once

#include "kernels/registry.h"
#include "kernels/softmax/params.h"

namespace profkit {

Kernel<profkit_softmax_params> softmax_vectorized_row();

void softmax_reference(const profkit_softmax_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
