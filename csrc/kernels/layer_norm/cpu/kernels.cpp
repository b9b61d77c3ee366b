// The CPU kernels of layer_norm, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/layer_norm/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_layer_norm_params, layer_norm_vectorized)

PROFKIT_CPU_ROWS(
    layer_norm, cpu_row<profkit_layer_norm_params, layer_norm_vectorized>("layer_norm/native/cpu/vectorized"))

}  // namespace profkit
