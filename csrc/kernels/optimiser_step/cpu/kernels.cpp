// The CPU kernels of optimiser_step, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/optimiser_step/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_optimiser_step_params, optimiser_step_vectorized)
ReferenceLaunch<profkit_optimiser_step_params> optimiser_step_reference;

PROFKIT_CPU_ROWS(
    optimiser_step,
    cpu_row<profkit_optimiser_step_params, optimiser_step_vectorized>("optimiser_step/native/cpu/vectorized"),
    reference_row<profkit_optimiser_step_params, optimiser_step_reference>(
        "optimiser_step/native/cpu/reference"))

}  // namespace profkit
