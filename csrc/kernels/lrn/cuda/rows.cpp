// The CUDA kernels of lrn, best known first, the simplest last.
#include "kernels/cuda/rows.h"
#include "kernels/lrn/params.h"

namespace profkit {

extern const CudaEntry<profkit_lrn_params> lrn_channel_walk_cuda, lrn_direct_cuda;

PROFKIT_CUDA_ROWS(lrn, {"lrn/native/cuda/channel_walk", lrn_channel_walk_cuda},
                  {"lrn/native/cuda/direct", lrn_direct_cuda})

}  // namespace profkit
