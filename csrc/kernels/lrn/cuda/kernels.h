// The launchers of the CUDA lrn kernels, for cuda/rows.cpp.
#pragma once

#include "kernels/cuda/registry.h"
#include "kernels/lrn/params.h"

namespace profkit {

std::string lrn_channel_walk_cuda_supports(const profkit_lrn_params& params, const CudaDevice& device);
void lrn_channel_walk_cuda(const profkit_lrn_params& params, const Buffers& buffers, const CudaCall& call);

std::string lrn_direct_cuda_supports(const profkit_lrn_params& params, const CudaDevice& device);
void lrn_direct_cuda(const profkit_lrn_params& params, const Buffers& buffers, const CudaCall& call);

}  // namespace profkit
