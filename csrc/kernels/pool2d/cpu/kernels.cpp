// The CPU kernels of pool2d, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/pool2d/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_pool2d_params, pool2d_separable)

namespace {
std::string separable_supports(const profkit_pool2d_params& params) {
  if (params.direction != PROFKIT_FORWARD) {
    return "separable reduces rows, then columns; a gradient goes the other way: use reference";
  }
  return supports_wide_floats(params);
}
}  // namespace

PROFKIT_CPU_ROWS(pool2d, cpu_row<profkit_pool2d_params, pool2d_separable, separable_supports>(
                             "pool2d/native/cpu/separable"))

}  // namespace profkit
