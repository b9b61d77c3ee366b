// The launchers of the CUDA bias_relu kernels, for cuda/rows.cpp.
#pragma once

#include "kernels/bias_relu/params.h"
#include "kernels/cuda/registry.h"

namespace profkit {

std::string bias_relu_elementwise_cuda_supports(const profkit_bias_relu_params& params,
                                                const CudaDevice& device);
void bias_relu_elementwise_cuda(const profkit_bias_relu_params& params, const Buffers& buffers,
                                const CudaCall& call);

}  // namespace profkit
