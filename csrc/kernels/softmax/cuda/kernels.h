// The launchers of the CUDA softmax kernels, for cuda/rows.cpp.
#pragma once

#include "kernels/cuda/registry.h"
#include "kernels/softmax/params.h"

namespace profkit {

std::string softmax_warp_rows_cuda_supports(const profkit_softmax_params& params, const CudaDevice& device);
void softmax_warp_rows_cuda(const profkit_softmax_params& params, const Buffers& buffers,
                            const CudaCall& call);

std::string softmax_block_rows_cuda_supports(const profkit_softmax_params& params, const CudaDevice& device);
void softmax_block_rows_cuda(const profkit_softmax_params& params, const Buffers& buffers,
                             const CudaCall& call);

}  // namespace profkit
