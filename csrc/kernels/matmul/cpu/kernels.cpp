// The CPU kernels of matmul, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/matmul/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_matmul_params, matmul_blocked)

PROFKIT_CPU_ROWS(matmul, cpu_row<profkit_matmul_params, matmul_blocked>("matmul/native/cpu/blocked"))

}  // namespace profkit
