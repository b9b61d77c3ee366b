// The CUDA kernels of softmax, best known first, the simplest last.
#include "kernels/softmax/cuda/kernels.h"

namespace profkit {

const std::vector<CudaKernel<profkit_softmax_params>>& softmax_cuda_kernels() {
  static const auto rows = unique_cuda_rows<profkit_softmax_params>({
      {"softmax/native/cuda/warp_rows", softmax_warp_rows_cuda_supports,
       no_cuda_workspace<profkit_softmax_params>, softmax_warp_rows_cuda},
      {"softmax/native/cuda/block_rows", softmax_block_rows_cuda_supports,
       no_cuda_workspace<profkit_softmax_params>, softmax_block_rows_cuda},
  });
  return rows;
}

}  // namespace profkit
