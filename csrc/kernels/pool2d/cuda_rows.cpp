// The CUDA kernels of pool2d, best known first, the simplest last.
#include "kernels/pool2d/cuda_kernels.h"

namespace profkit {

const std::vector<CudaKernel<profkit_pool2d_params>>& pool2d_cuda_kernels() {
  static const auto rows = unique_cuda_rows<profkit_pool2d_params>({});
  return rows;
}

}  // namespace profkit
