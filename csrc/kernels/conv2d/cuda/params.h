// From the numbers of params.h to what the CUDA conv2d kernels take.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "kernels/conv2d/cuda/gather.cuh"
#include "kernels/conv2d/cuda/problem.cuh"
#include "kernels/conv2d/params.h"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/window_fields.h"

namespace profkit {

// Grids have at most this many blocks in y and z.
constexpr int64_t kMostConvBlocksYZ = 65535;

// The limits of all kernels: float32, and 32-bit index arithmetic, of coordinates with their padding and of
// each array as a whole.
inline std::string fits_cuda(const profkit_conv2d_params& p) {
  constexpr int64_t most = int64_t{1} << 31;
  if (p.dtype != PROFKIT_FLOAT32) return float32_only(p);
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
  set_window_fields(problem, p);
  problem.out_channels = number(p.out_channels);
  problem.dilation_h = number(p.dilation_h);
  problem.dilation_w = number(p.dilation_w);
  problem.groups = number(p.groups);
  problem.in_per_group = number(p.in_channels / p.groups);
  problem.out_per_group = number(p.out_channels / p.groups);
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
inline cuda::GatherImage x_image(const cuda::ConvProblem& conv) {
  return gather_image(conv.x, conv.height, conv.width);
}
inline cuda::GatherImage y_image(const cuda::ConvProblem& conv) {
  return gather_image(conv.y, conv.out_h, conv.out_w);
}

// Fills what the problems of kernels have in common that compute forward and, from dy, the input gradient:
// which side is the source, and the channels per group that are summed over and produced.
template <class Problem>
void set_sides(Problem& problem, const profkit_conv2d_params& p) {
  const cuda::ConvProblem& conv = problem.conv = cuda_problem(p);
  problem.is_gradient = p.direction == PROFKIT_INPUT_GRADIENT;
  problem.channels = problem.is_gradient ? conv.out_per_group : conv.in_per_group;
  problem.results = problem.is_gradient ? conv.in_per_group : conv.out_per_group;
  problem.source = problem.is_gradient ? y_image(conv) : x_image(conv);
}

// Tiles of sums that a block of a product computes, by configuration; they are as high as wide.
constexpr int kConvTiles[] = {128, 64};
inline std::vector<std::string> conv_tile_names(const profkit_conv2d_params&, const CudaDevice&) {
  return {"128x128", "64x64"};
}

// Calls work(tile, flag), with both as types, for the instances of a kernel.
template <class Work>
void with_instance(int tile, bool flag, const Work& work) {
  const auto with_tile = [&](auto side) {
    flag ? work(side, std::true_type()) : work(side, std::false_type());
  };
  tile == 128 ? with_tile(std::integral_constant<int, 128>()) : with_tile(std::integral_constant<int, 64>());
}

inline int64_t weight_count(const profkit_conv2d_params& p) {
  return p.out_channels * (p.in_channels / p.groups) * p.kernel_h * p.kernel_w;
}

}  // namespace profkit
