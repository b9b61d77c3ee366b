// The CUDA kernels of pool2d, best known first, the simplest last.
#include "kernels/cuda/registry.h"
#include "kernels/pool2d/params.h"

namespace profkit {

extern const CudaEntry<profkit_pool2d_params> pool2d_vectorized_cuda, pool2d_direct_cuda;

const std::vector<CudaKernel<profkit_pool2d_params>>& pool2d_cuda_kernels() {
  static const auto rows = unique_rows<CudaKernel<profkit_pool2d_params>>({
      {"pool2d/native/cuda/vectorized", pool2d_vectorized_cuda},
      {"pool2d/native/cuda/direct", pool2d_direct_cuda},
  });
  return rows;
}

}  // namespace profkit
