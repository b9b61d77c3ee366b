// Door of pool2d/native/cpu/separable: picks the instruction set; the kernel is in cpu_separable.inl.
#include "kernels/cpu_dispatch.h"
#include "kernels/pool2d/kernels.h"

namespace profkit {

using PoolEntry = CpuEntry<profkit_pool2d_params>;
namespace generic {
extern const PoolEntry pool2d_separable;
}
namespace avx2 {
extern const PoolEntry pool2d_separable;
}
namespace avx512 {
extern const PoolEntry pool2d_separable;
}
namespace neon {
extern const PoolEntry pool2d_separable;
}

namespace {
constexpr CpuVariants<profkit_pool2d_params> kVariants = PROFKIT_CPU_VARIANTS(pool2d_separable);
}

std::string pool2d_separable_supports(const profkit_pool2d_params& params) {
  if (params.direction != PROFKIT_FORWARD) {
    return "separable reduces rows, then columns; a gradient goes the other way: use reference";
  }
  return supports_wide_floats(params);
}

size_t pool2d_separable_workspace_bytes(const profkit_pool2d_params& params, int threads) {
  return workspace_on_active(kVariants, params, threads);
}

void pool2d_separable(const profkit_pool2d_params& params, const Buffers& buffers, int threads) {
  launch_on_active(kVariants, params, buffers, threads);
}

}  // namespace profkit
