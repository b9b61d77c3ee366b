// The CUDA kernels of softmax, best known first, the simplest last.
#include "kernels/cuda/registry.h"
#include "kernels/softmax/params.h"

namespace profkit {

extern const CudaEntry<profkit_softmax_params> softmax_warp_rows_cuda, softmax_block_rows_cuda;

const std::vector<CudaKernel<profkit_softmax_params>>& softmax_cuda_kernels() {
  static const auto rows = unique_rows<CudaKernel<profkit_softmax_params>>({
      {"softmax/native/cuda/warp_rows", softmax_warp_rows_cuda},
      {"softmax/native/cuda/block_rows", softmax_block_rows_cuda},
  });
  return rows;
}

}  // namespace profkit
