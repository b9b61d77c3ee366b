// The CPU kernels of batch_norm, best known first, the reference last.
#include "kernels/batch_norm/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_batch_norm_params, batch_norm_vectorized)

PROFKIT_CPU_ROWS(
    batch_norm, cpu_row<profkit_batch_norm_params, batch_norm_vectorized>("batch_norm/native/cpu/vectorized"))

}  // namespace profkit
