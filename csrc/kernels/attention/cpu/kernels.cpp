// The CPU kernels of attention, best known first, the reference last.
#include "kernels/attention/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_attention_params, attention_by_head)

PROFKIT_CPU_ROWS(attention,
                 cpu_row<profkit_attention_params, attention_by_head>("attention/native/cpu/by_head"))

}  // namespace profkit
