// The CUDA kernels of softmax, best known first, the simplest last.
#include "kernels/cuda/rows.h"
#include "kernels/softmax/params.h"

namespace profkit {

extern const CudaEntry<profkit_softmax_params> softmax_warp_rows_cuda, softmax_block_rows_cuda;

PROFKIT_CUDA_ROWS(softmax, {"softmax/native/cuda/warp_rows", softmax_warp_rows_cuda},
                  {"softmax/native/cuda/block_rows", softmax_block_rows_cuda})

}  // namespace profkit
