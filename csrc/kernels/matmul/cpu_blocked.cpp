// Door of matmul/native/cpu/blocked: picks the instruction set; the kernel is in cpu_blocked.inl.
#include "kernels/cpu_dispatch.h"
#include "kernels/matmul/kernels.h"

namespace profkit {

using MatmulEntry = CpuEntry<profkit_matmul_params>;
namespace generic {
extern const MatmulEntry matmul_blocked;
}
namespace avx2 {
extern const MatmulEntry matmul_blocked;
}
namespace avx512 {
extern const MatmulEntry matmul_blocked;
}
namespace neon {
extern const MatmulEntry matmul_blocked;
}

namespace {
constexpr CpuVariants<profkit_matmul_params> kVariants = PROFKIT_CPU_VARIANTS(matmul_blocked);
}

size_t matmul_blocked_workspace_bytes(const profkit_matmul_params& params, int threads) {
  return workspace_on_active(kVariants, params, threads);
}

void matmul_blocked(const profkit_matmul_params& params, const Buffers& buffers, int threads) {
  launch_on_active(kVariants, params, buffers, threads);
}

CpuTuning<profkit_matmul_params> matmul_blocked_tuning() {
  return tuning_on_active<profkit_matmul_params, kVariants>();
}

}  // namespace profkit
