// The CUDA kernels of bias_relu, best known first, the simplest last.
#include "kernels/cuda/rows.h"
#include "kernels/bias_relu/params.h"

namespace profkit {

extern const CudaEntry<profkit_bias_relu_params> bias_relu_elementwise_cuda;

PROFKIT_CUDA_ROWS(bias_relu, {"bias_relu/native/cuda/elementwise", bias_relu_elementwise_cuda})

}  // namespace profkit
