// The launchers of the CUDA pool2d kernels, for cuda/rows.cpp.
#pragma once

#include "kernels/cuda/registry.h"
#include "kernels/pool2d/params.h"

namespace profkit {

// Of every kernel: the places of the maxima, for the gradient.
size_t pool2d_cuda_workspace(const profkit_pool2d_params& params, const CudaCall& call);

std::string pool2d_vectorized_cuda_supports(const profkit_pool2d_params& params, const CudaDevice& device);
void pool2d_vectorized_cuda(const profkit_pool2d_params& params, const Buffers& buffers,
                            const CudaCall& call);

std::string pool2d_direct_cuda_supports(const profkit_pool2d_params& params, const CudaDevice& device);
void pool2d_direct_cuda(const profkit_pool2d_params& params, const Buffers& buffers, const CudaCall& call);

}  // namespace profkit
