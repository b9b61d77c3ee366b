// Door of lrn/native/cpu/windowed: its limits; the kernel is in cpu/windowed.inl.
#include "kernels/cpu/dispatch.h"
#include "kernels/lrn/kernels.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_lrn_params, lrn_windowed)

namespace {
std::string windowed_supports(const profkit_lrn_params& params) {
  if (params.beta == 0.5 || params.beta == 0.75 || params.beta == 1.0) {
    return supports_wide_floats(params);
  }
  return "windowed takes powers by square roots: beta must be 0.5, 0.75 or 1, not " +
         std::to_string(params.beta);
}
}  // namespace

Kernel<profkit_lrn_params> lrn_windowed_row() {
  return cpu_row<profkit_lrn_params, lrn_windowed, windowed_supports>("lrn/native/cpu/windowed");
}

}  // namespace profkit
