// The launchers of the CUDA matmul kernels, for cuda_registry.cpp.
#pragma once

#include "kernels/cuda_registry.h"

namespace profkit {

std::string matmul_naive_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device);
void matmul_naive_cuda(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call);

}  // namespace profkit
