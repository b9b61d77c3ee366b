// The CPU kernels of bias_relu, best known first, the reference last.
#include "kernels/bias_relu/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_bias_relu_params, bias_relu_vectorized)

PROFKIT_CPU_ROWS(bias_relu,
                 cpu_row<profkit_bias_relu_params, bias_relu_vectorized>("bias_relu/native/cpu/vectorized"))

}  // namespace profkit
