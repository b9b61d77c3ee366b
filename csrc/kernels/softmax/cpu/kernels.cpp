// The CPU kernels of softmax, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/softmax/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_softmax_params, softmax_vectorized)

PROFKIT_CPU_ROWS(softmax,
                 cpu_row<profkit_softmax_params, softmax_vectorized>("softmax/native/cpu/vectorized"))

}  // namespace profkit
