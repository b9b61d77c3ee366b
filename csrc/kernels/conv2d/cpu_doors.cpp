// Doors of the conv2d kernels that exist per instruction set: limits, and the choice at run time. The kernels
// are in the cpu_*.inl of the same name.
#include "kernels/conv2d/kernels.h"
#include "kernels/cpu_dispatch.h"

namespace profkit {

using ConvEntry = CpuEntry<profkit_conv2d_params>;
namespace generic {
extern const ConvEntry conv2d_direct, conv2d_im2col, conv2d_im2col_batched, conv2d_implicit_gemm;
}
namespace avx2 {
extern const ConvEntry conv2d_direct, conv2d_im2col, conv2d_im2col_batched, conv2d_implicit_gemm;
}
namespace avx512 {
extern const ConvEntry conv2d_direct, conv2d_im2col, conv2d_im2col_batched, conv2d_implicit_gemm;
}
namespace neon {
extern const ConvEntry conv2d_direct, conv2d_im2col, conv2d_im2col_batched, conv2d_implicit_gemm;
}

namespace {
constexpr CpuVariants<profkit_conv2d_params> kDirect = PROFKIT_CPU_VARIANTS(conv2d_direct);
constexpr CpuVariants<profkit_conv2d_params> kIm2col = PROFKIT_CPU_VARIANTS(conv2d_im2col);
constexpr CpuVariants<profkit_conv2d_params> kIm2colBatched = PROFKIT_CPU_VARIANTS(conv2d_im2col_batched);
constexpr CpuVariants<profkit_conv2d_params> kImplicitGemm = PROFKIT_CPU_VARIANTS(conv2d_implicit_gemm);
}  // namespace

std::string conv2d_direct_supports(const profkit_conv2d_params& params) {
  if (params.layout != PROFKIT_NCHW) {
    return "direct takes vectors along the width, which lies contiguously in NCHW only; in NHWC use "
           "implicit_gemm, "
           "which reads the image in place";
  }
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) {
    return "direct sums over channels and taps; the weight gradient sums over positions: use implicit_gemm";
  }
  return supports_wide_floats(params);
}

size_t conv2d_direct_workspace_bytes(const profkit_conv2d_params& params, int threads) {
  return workspace_on_active(kDirect, params, threads);
}
void conv2d_direct(const profkit_conv2d_params& params, const Buffers& buffers, int threads) {
  launch_on_active(kDirect, params, buffers, threads);
}
CpuTuning<profkit_conv2d_params> conv2d_direct_tuning() {
  return tuning_on_active<profkit_conv2d_params, kDirect>();
}

size_t conv2d_im2col_workspace_bytes(const profkit_conv2d_params& params, int threads) {
  return workspace_on_active(kIm2col, params, threads);
}
void conv2d_im2col(const profkit_conv2d_params& params, const Buffers& buffers, int threads) {
  launch_on_active(kIm2col, params, buffers, threads);
}
CpuTuning<profkit_conv2d_params> conv2d_im2col_tuning() {
  return tuning_on_active<profkit_conv2d_params, kIm2col>();
}

size_t conv2d_im2col_batched_workspace_bytes(const profkit_conv2d_params& params, int threads) {
  return workspace_on_active(kIm2colBatched, params, threads);
}
void conv2d_im2col_batched(const profkit_conv2d_params& params, const Buffers& buffers, int threads) {
  launch_on_active(kIm2colBatched, params, buffers, threads);
}
CpuTuning<profkit_conv2d_params> conv2d_im2col_batched_tuning() {
  return tuning_on_active<profkit_conv2d_params, kIm2colBatched>();
}

size_t conv2d_implicit_gemm_workspace_bytes(const profkit_conv2d_params& params, int threads) {
  return workspace_on_active(kImplicitGemm, params, threads);
}
void conv2d_implicit_gemm(const profkit_conv2d_params& params, const Buffers& buffers, int threads) {
  launch_on_active(kImplicitGemm, params, buffers, threads);
}
CpuTuning<profkit_conv2d_params> conv2d_implicit_gemm_tuning() {
  return tuning_on_active<profkit_conv2d_params, kImplicitGemm>();
}

}  // namespace profkit
