// The CUDA kernels of lrn, best known first, the simplest last.
#include "kernels/cuda/registry.h"
#include "kernels/lrn/params.h"

namespace profkit {

extern const CudaEntry<profkit_lrn_params> lrn_channel_walk_cuda, lrn_direct_cuda;

const std::vector<CudaKernel<profkit_lrn_params>>& lrn_cuda_kernels() {
  static const auto rows = unique_rows<CudaKernel<profkit_lrn_params>>({
      {"lrn/native/cuda/channel_walk", lrn_channel_walk_cuda},
      {"lrn/native/cuda/direct", lrn_direct_cuda},
  });
  return rows;
}

}  // namespace profkit
