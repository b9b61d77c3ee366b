// The CUDA kernels of bias_relu, best known first, the simplest last.
#include "kernels/bias_relu/cuda/kernels.h"

namespace profkit {

const std::vector<CudaKernel<profkit_bias_relu_params>>& bias_relu_cuda_kernels() {
  static const auto rows = unique_cuda_rows<profkit_bias_relu_params>({
      {"bias_relu/native/cuda/elementwise", bias_relu_elementwise_cuda_supports,
       no_cuda_workspace<profkit_bias_relu_params>, bias_relu_elementwise_cuda},
  });
  return rows;
}

}  // namespace profkit
