// The softmax kernels that registry.cpp lists.
#pragma once

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

Kernel<profkit_softmax_params> softmax_vectorized_row();

void softmax_reference(const profkit_softmax_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
