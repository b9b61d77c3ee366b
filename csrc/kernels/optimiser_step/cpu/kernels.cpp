// The CPU kernels of optimiser_step, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/optimiser_step/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_optimiser_step_params, optimiser_step_vectorized)

PROFKIT_CPU_ROWS(optimiser_step, cpu_row<profkit_optimiser_step_params, optimiser_step_vectorized>(
                                     "optimiser_step/native/cpu/vectorized"))

}  // namespace profkit
