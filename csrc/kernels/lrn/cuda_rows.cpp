// The CUDA kernels of lrn, best known first, the simplest last.
#include "kernels/lrn/cuda_kernels.h"

namespace profkit {

const std::vector<CudaKernel<profkit_lrn_params>>& lrn_cuda_kernels() {
  static const auto rows = unique_cuda_rows<profkit_lrn_params>({});
  return rows;
}

}  // namespace profkit
