// Door of matmul/native/cpu/blocked; the kernel is in cpu/blocked.inl.
#include "kernels/cpu/dispatch.h"
#include "kernels/matmul/kernels.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_matmul_params, matmul_blocked)

Kernel<profkit_matmul_params> matmul_blocked_row() {
  return cpu_row<profkit_matmul_params, matmul_blocked>("matmul/native/cpu/blocked");
}

}  // namespace profkit
