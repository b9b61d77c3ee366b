// Doors of the conv2d kernels that exist per instruction set: limits, and the choice at run time. The kernels
// are in the cpu_*.inl of the same name.
#include "kernels/conv2d/kernels.h"
#include "kernels/cpu_dispatch.h"

namespace profkit {

using ConvEntry = CpuEntry<profkit_conv2d_params>;
namespace generic {
extern const ConvEntry conv2d_implicit_gemm;
}
namespace avx2 {
extern const ConvEntry conv2d_implicit_gemm;
}
namespace avx512 {
extern const ConvEntry conv2d_implicit_gemm;
}
namespace neon {
extern const ConvEntry conv2d_implicit_gemm;
}

namespace {
constexpr CpuVariants<profkit_conv2d_params> kImplicitGemm = PROFKIT_CPU_VARIANTS(conv2d_implicit_gemm);
}

size_t conv2d_implicit_gemm_workspace_bytes(const profkit_conv2d_params& params, int threads) {
  return workspace_on_active(kImplicitGemm, params, threads);
}

void conv2d_implicit_gemm(const profkit_conv2d_params& params, const Buffers& buffers, int threads) {
  launch_on_active(kImplicitGemm, params, buffers, threads);
}

}  // namespace profkit
