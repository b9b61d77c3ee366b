// The CPU kernels of matmul, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/matmul/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_matmul_params, matmul_blocked)
ReferenceLaunch<profkit_matmul_params> matmul_reference;

PROFKIT_CPU_ROWS(matmul, cpu_row<profkit_matmul_params, matmul_blocked>("matmul/native/cpu/blocked"),
                 reference_row<profkit_matmul_params, matmul_reference>("matmul/native/cpu/reference"))

}  // namespace profkit
