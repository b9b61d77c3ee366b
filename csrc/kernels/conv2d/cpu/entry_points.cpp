// Entry points of the conv2d kernels that exist per instruction set: their limits. The kernels are in the
// .inl of the same name.
#include "kernels/conv2d/kernels.h"
#include "kernels/cpu_dispatch.h"

namespace profkit {

using Conv = profkit_conv2d_params;
PROFKIT_VECTOR_ENTRY(Conv, conv2d_direct)
PROFKIT_VECTOR_ENTRY(Conv, conv2d_im2col)
PROFKIT_VECTOR_ENTRY(Conv, conv2d_im2col_batched)
PROFKIT_CPU_ENTRY(Conv, conv2d_implicit_gemm)
PROFKIT_VECTOR_ENTRY(Conv, conv2d_skip_padding)

namespace {
std::string direct_supports(const Conv& params) {
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
std::string skip_padding_supports(const Conv& params) {
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) {
    return "skip_padding sums over channels and taps; the weight gradient sums over positions: use "
           "implicit_gemm";
  }
  return supports_wide_floats(params);
}
}  // namespace

Kernel<Conv> conv2d_implicit_gemm_row() {
  return cpu_row<Conv, conv2d_implicit_gemm>("conv2d/native/cpu/implicit_gemm");
}
Kernel<Conv> conv2d_skip_padding_row() {
  return cpu_row<Conv, conv2d_skip_padding, skip_padding_supports>("conv2d/native/cpu/skip_padding");
}
Kernel<Conv> conv2d_direct_row() {
  return cpu_row<Conv, conv2d_direct, direct_supports>("conv2d/native/cpu/direct");
}
Kernel<Conv> conv2d_im2col_row() { return cpu_row<Conv, conv2d_im2col>("conv2d/native/cpu/im2col"); }
Kernel<Conv> conv2d_im2col_batched_row() {
  return cpu_row<Conv, conv2d_im2col_batched>("conv2d/native/cpu/im2col_batched");
}

}  // namespace profkit
