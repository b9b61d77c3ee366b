// The CPU kernels of add, best known first, the reference last.
#include "kernels/add/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_add_params, add_vectorized)

PROFKIT_CPU_ROWS(add, cpu_row<profkit_add_params, add_vectorized>("add/native/cpu/vectorized"))

}  // namespace profkit
