// Door of lrn/native/cpu/windowed: its limits, and the instruction set; the kernel is in cpu_windowed.inl.
#include "kernels/cpu_dispatch.h"
#include "kernels/lrn/kernels.h"

namespace profkit {

using LrnEntry = CpuEntry<profkit_lrn_params>;
namespace generic {
extern const LrnEntry lrn_windowed;
}
namespace avx2 {
extern const LrnEntry lrn_windowed;
}
namespace avx512 {
extern const LrnEntry lrn_windowed;
}
namespace neon {
extern const LrnEntry lrn_windowed;
}

namespace {
constexpr CpuVariants<profkit_lrn_params> kVariants = PROFKIT_CPU_VARIANTS(lrn_windowed);
}

std::string lrn_windowed_supports(const profkit_lrn_params& params) {
  if (params.beta == 0.5 || params.beta == 0.75 || params.beta == 1.0) {
    return supports_wide_floats(params);
  }
  return "windowed takes powers by square roots: beta must be 0.5, 0.75 or 1, not " +
         std::to_string(params.beta);
}

size_t lrn_windowed_workspace_bytes(const profkit_lrn_params& params, int threads) {
  return workspace_on_active(kVariants, params, threads);
}

void lrn_windowed(const profkit_lrn_params& params, const Buffers& buffers, int threads) {
  launch_on_active(kVariants, params, buffers, threads);
}

}  // namespace profkit
