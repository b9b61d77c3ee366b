// Door of bias_relu/native/cpu/vectorized; the kernel is in cpu/vectorized.inl.
#include "kernels/bias_relu/kernels.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_bias_relu_params, bias_relu_vectorized)

Kernel<profkit_bias_relu_params> bias_relu_vectorized_row() {
  return cpu_row<profkit_bias_relu_params, bias_relu_vectorized>("bias_relu/native/cpu/vectorized");
}

}  // namespace profkit
