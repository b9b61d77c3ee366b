// The CUDA kernels of lrn, best known first, the simplest last.
#include "kernels/lrn/cuda/kernels.h"

namespace profkit {

const std::vector<CudaKernel<profkit_lrn_params>>& lrn_cuda_kernels() {
  static const auto rows = unique_cuda_rows<profkit_lrn_params>({
      {"lrn/native/cuda/channel_walk", lrn_channel_walk_cuda_supports, no_cuda_workspace<profkit_lrn_params>,
       lrn_channel_walk_cuda},
      {"lrn/native/cuda/direct", lrn_direct_cuda_supports, no_cuda_workspace<profkit_lrn_params>,
       lrn_direct_cuda},
  });
  return rows;
}

}  // namespace profkit
