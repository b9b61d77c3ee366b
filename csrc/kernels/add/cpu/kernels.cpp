// The CPU kernels of add, best known first, the reference last.
#include "kernels/add/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_add_params, add_vectorized)
ReferenceLaunch<profkit_add_params> add_reference;

PROFKIT_CPU_ROWS(add, cpu_row<profkit_add_params, add_vectorized>("add/native/cpu/vectorized"),
                 reference_row<profkit_add_params, add_reference>("add/native/cpu/reference"))

}  // namespace profkit
