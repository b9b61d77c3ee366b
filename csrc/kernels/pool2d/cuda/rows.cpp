// The CUDA kernels of pool2d, best known first, the simplest last.
#include "kernels/cuda/rows.h"
#include "kernels/pool2d/params.h"

namespace profkit {

extern const CudaEntry<profkit_pool2d_params> pool2d_vectorized_cuda, pool2d_direct_cuda;

PROFKIT_CUDA_ROWS(pool2d, {"pool2d/native/cuda/vectorized", pool2d_vectorized_cuda},
                  {"pool2d/native/cuda/direct", pool2d_direct_cuda})

}  // namespace profkit
