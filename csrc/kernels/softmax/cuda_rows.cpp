// The CUDA kernels of softmax, best known first, the simplest last.
#include "kernels/softmax/cuda_kernels.h"

namespace profkit {

const std::vector<CudaKernel<profkit_softmax_params>>& softmax_cuda_kernels() {
  static const auto rows = unique_cuda_rows<profkit_softmax_params>({});
  return rows;
}

}  // namespace profkit
