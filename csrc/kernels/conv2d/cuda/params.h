// From the numbers of params.h to what the CUDA conv2d kernels take.
#pragma once

#include <string>

#include "kernels/conv2d/cuda/gather.cuh"
#include "kernels/conv2d/cuda/problem.cuh"
#include "kernels/conv2d/params.h"
#include "kernels/cuda/registry.h"

namespace profkit {

// Grids have at most this many blocks in y and z.
constexpr int64_t kMostConvBlocksYZ = 65535;

// The limits of 32-bit index arithmetic: coordinates with their padding, and each array as a whole.
inline std::string fits_cuda(const profkit_conv2d_params& p) {
  constexpr int64_t most = int64_t{1} << 31;
  if (p.height + p.pad_top + p.pad_bottom >= most / 4 || p.width + p.pad_left + p.pad_right >= most / 4) {
    return "height and width with their padding must be below 2^29";
  }
  if (p.dilation_h * p.kernel_h >= most / 4 || p.dilation_w * p.kernel_w >= most / 4 ||
      p.stride_h >= most / 4 || p.stride_w >= most / 4) {
    return "stride, and filter size times dilation, must be below 2^29";
  }
  const auto is_large = [](int64_t a, int64_t b, int64_t c, int64_t d) {
    return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c) *
               static_cast<double>(d) >=
           static_cast<double>(most);
  };
  if (is_large(p.batch, p.in_channels, p.height, p.width)) return "x must have fewer than 2^31 elements";
  if (is_large(p.batch, p.out_channels, p.out_h, p.out_w)) return "y must have fewer than 2^31 elements";
  if (is_large(p.out_channels, p.in_channels / p.groups, p.kernel_h, p.kernel_w)) {
    return "w must have fewer than 2^31 elements";
  }
  return {};
}

inline cuda::ImageSteps image_steps(int64_t layout, int64_t channels, int64_t height, int64_t width) {
  const int64_t image = channels * height * width;
  if (layout == PROFKIT_NCHW) return {image, static_cast<int>(height * width), static_cast<int>(width), 1};
  return {image, 1, static_cast<int>(width * channels), static_cast<int>(channels)};
}

// Only for params that fits_cuda takes. Bias and ReLU belong to the forward direction alone.
inline cuda::ConvProblem cuda_problem(const profkit_conv2d_params& p) {
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  const bool is_forward = p.direction == PROFKIT_FORWARD;
  cuda::ConvProblem problem{};
  problem.batch = number(p.batch);
  problem.in_channels = number(p.in_channels);
  problem.height = number(p.height);
  problem.width = number(p.width);
  problem.out_channels = number(p.out_channels);
  problem.kernel_h = number(p.kernel_h);
  problem.kernel_w = number(p.kernel_w);
  problem.stride_h = number(p.stride_h);
  problem.stride_w = number(p.stride_w);
  problem.pad_top = number(p.pad_top);
  problem.pad_left = number(p.pad_left);
  problem.dilation_h = number(p.dilation_h);
  problem.dilation_w = number(p.dilation_w);
  problem.groups = number(p.groups);
  problem.in_per_group = number(p.in_channels / p.groups);
  problem.out_per_group = number(p.out_channels / p.groups);
  problem.out_h = number(p.out_h);
  problem.out_w = number(p.out_w);
  problem.is_nhwc = p.layout == PROFKIT_NHWC;
  problem.has_bias = is_forward && p.bias != 0;
  problem.has_relu = is_forward && p.activation == PROFKIT_RELU;
  problem.x = image_steps(p.layout, p.in_channels, p.height, p.width);
  problem.y = image_steps(p.layout, p.out_channels, p.out_h, p.out_w);
  return problem;
}

// Offsets in 32 bits: only for params that fits_cuda takes.
inline cuda::GatherImage gather_image(const cuda::ImageSteps& steps, int height, int width) {
  return {height, width, static_cast<int>(steps.image), steps.channel, steps.row, steps.column};
}

}  // namespace profkit
