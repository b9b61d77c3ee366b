// The lrn kernels that cpu/kernels.cpp lists.
#pragma once

#include "kernels/lrn/params.h"
#include "kernels/registry.h"

namespace profkit {

Kernel<profkit_lrn_params> lrn_windowed_row();

void lrn_reference(const profkit_lrn_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
