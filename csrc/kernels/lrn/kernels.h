// The lrn kernels that registry.cpp lists.
#pragma once

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

std::string lrn_windowed_supports(const profkit_lrn_params& params);
size_t lrn_windowed_workspace_bytes(const profkit_lrn_params& params, int threads);
void lrn_windowed(const profkit_lrn_params& params, const Buffers& buffers, int threads);

void lrn_reference(const profkit_lrn_params& params, const Buffers& buffers, int threads);

}  // namespace profkit
