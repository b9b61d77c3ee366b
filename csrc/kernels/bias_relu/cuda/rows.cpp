// The CUDA kernels of bias_relu, best known first, the simplest last.
#include "kernels/bias_relu/params.h"
#include "kernels/cuda/registry.h"

namespace profkit {

extern const CudaEntry<profkit_bias_relu_params> bias_relu_elementwise_cuda;

const std::vector<CudaKernel<profkit_bias_relu_params>>& bias_relu_cuda_kernels() {
  static const auto rows = unique_rows<CudaKernel<profkit_bias_relu_params>>({
      {"bias_relu/native/cuda/elementwise", bias_relu_elementwise_cuda},
  });
  return rows;
}

}  // namespace profkit
