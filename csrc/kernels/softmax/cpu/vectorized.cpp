// Door of softmax/native/cpu/vectorized; the kernel is in cpu/vectorized.inl.
#include "kernels/cpu/dispatch.h"
#include "kernels/softmax/kernels.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_softmax_params, softmax_vectorized)

Kernel<profkit_softmax_params> softmax_vectorized_row() {
  return cpu_row<profkit_softmax_params, softmax_vectorized>("softmax/native/cpu/vectorized");
}

}  // namespace profkit
