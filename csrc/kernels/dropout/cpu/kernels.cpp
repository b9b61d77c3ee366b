// The CPU kernels of dropout, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/dropout/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_dropout_params, dropout_vectorized)

PROFKIT_CPU_ROWS(dropout,
                 cpu_row<profkit_dropout_params, dropout_vectorized>("dropout/native/cpu/vectorized"))

}  // namespace profkit
