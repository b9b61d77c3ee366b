// The CPU kernels of conv2d, best known first, the reference last: which calls each takes. The kernels are in
// the .inl of the same name.
#include "kernels/conv2d/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

using Conv = profkit_conv2d_params;
PROFKIT_CPU_ENTRY(Conv, conv2d_implicit_gemm)
PROFKIT_VECTOR_ENTRY(Conv, conv2d_skip_padding)
PROFKIT_VECTOR_ENTRY(Conv, conv2d_winograd_8x8)
PROFKIT_VECTOR_ENTRY(Conv, conv2d_winograd_6x6)
PROFKIT_VECTOR_ENTRY(Conv, conv2d_direct)
PROFKIT_VECTOR_ENTRY(Conv, conv2d_im2col)
PROFKIT_VECTOR_ENTRY(Conv, conv2d_im2col_batched)

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

// Taps per axis after the split of a stride into phases.
int64_t winograd_taps(int64_t kernel, int64_t stride) { return (kernel + stride - 1) / stride; }

// `shortest` is by taps, from kWinogradFewestTaps on: how many channels of the reduction (times phases) keep
// the error below 0.7 of the tolerance of a float sum of that length, as measured. With few results none may
// be large, and errors are relative to the largest.
constexpr int64_t kWinogradFewestTaps = 3, kWinogradMostTaps = 5;
constexpr int64_t kWinogradFewestResults = 64;
constexpr int64_t kWinogradMostStride = 4;  // as in cpu/winograd/filters.inl

std::string winograd_supports(const Conv& params, const int64_t* shortest) {
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) {
    return "winograd is written for forward and the input gradient; for the weight gradient use "
           "implicit_gemm";
  }
  if (params.dilation_h != 1 || params.dilation_w != 1) {
    return "winograd takes neighbouring taps: dilation must be 1";
  }
  if (params.direction == PROFKIT_INPUT_GRADIENT && (params.stride_h != 1 || params.stride_w != 1)) {
    return "winograd takes the input gradient at stride 1 only: use implicit_gemm";
  }
  const int64_t taps = winograd_taps(params.kernel_h, params.stride_h);
  if (params.stride_h != params.stride_w || winograd_taps(params.kernel_w, params.stride_w) != taps ||
      taps < kWinogradFewestTaps || taps > kWinogradMostTaps || params.stride_h > kWinogradMostStride) {
    return "winograd takes " + std::to_string(kWinogradFewestTaps) + " to " +
           std::to_string(kWinogradMostTaps) +
           " taps per axis and phase of the stride, as many along the height as along the width, and strides "
           "up to " +
           std::to_string(kWinogradMostStride) + "; got " + std::to_string(params.kernel_h) + "x" +
           std::to_string(params.kernel_w) + " with strides " + std::to_string(params.stride_h) + " and " +
           std::to_string(params.stride_w);
  }
  const bool forward = params.direction == PROFKIT_FORWARD;
  const int64_t channels = (forward ? params.in_channels : params.out_channels) / params.groups;
  const int64_t length = channels * params.stride_h * params.stride_w;
  if (length < shortest[taps - kWinogradFewestTaps]) {
    return "the errors of these tiles of winograd need a sum over " +
           std::to_string(shortest[taps - kWinogradFewestTaps]) +
           " channels (times phases of the stride) to stay in proportion; got " + std::to_string(length);
  }
  // Where most windows see little more than padding, all results are small compared with the terms of the
  // transforms.
  const int64_t height = forward ? params.height : params.out_h,
                width = forward ? params.width : params.out_w;
  if (height < params.kernel_h || width < params.kernel_w || params.pad_top >= params.kernel_h ||
      params.pad_bottom >= params.kernel_h || params.pad_left >= params.kernel_w ||
      params.pad_right >= params.kernel_w) {
    return "winograd is for images of at least the kernel's size, padded by less than that";
  }
  const int64_t results = forward ? params.batch * params.out_channels * params.out_h * params.out_w
                                  : params.batch * params.in_channels * params.height * params.width;
  if (results < kWinogradFewestResults) {
    return "winograd is for " + std::to_string(kWinogradFewestResults) + " results and more; got " +
           std::to_string(results);
  }
  return supports_wide_floats(params);
}
std::string winograd_6x6_supports(const Conv& params) {
  static constexpr int64_t shortest[] = {1, 1, 1};
  return winograd_supports(params, shortest);
}
std::string winograd_8x8_supports(const Conv& params) {
  static constexpr int64_t shortest[] = {32, 12, 3};
  return winograd_supports(params, shortest);
}
}  // namespace

PROFKIT_CPU_ROWS(conv2d, cpu_row<Conv, conv2d_implicit_gemm>("conv2d/native/cpu/implicit_gemm"),
                 cpu_row<Conv, conv2d_skip_padding, skip_padding_supports>("conv2d/native/cpu/skip_padding"),
                 cpu_row<Conv, conv2d_winograd_8x8, winograd_8x8_supports>("conv2d/native/cpu/winograd_8x8"),
                 cpu_row<Conv, conv2d_winograd_6x6, winograd_6x6_supports>("conv2d/native/cpu/winograd_6x6"),
                 cpu_row<Conv, conv2d_direct, direct_supports>("conv2d/native/cpu/direct"),
                 cpu_row<Conv, conv2d_im2col>("conv2d/native/cpu/im2col"),
                 cpu_row<Conv, conv2d_im2col_batched>("conv2d/native/cpu/im2col_batched"))

}  // namespace profkit
