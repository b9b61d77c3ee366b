#include "kernels/conv2d/cuda/depthwise.cuh"

#include <algorithm>

#include "kernels/conv2d/cuda/depthwise_weights.cuh"
#include "kernels/conv2d/cuda/params.h"
#include "kernels/cuda/launch.cuh"

namespace profkit {
namespace {

using Params = profkit_conv2d_params;

constexpr int64_t kLeastPositionsPerSplit = 1024;
constexpr int kBlocksPerMultiprocessor = 8;

// 3 or 5 where a filter is square and without holes, otherwise 0.
int known_size(const Params& p) {
  const bool is_plain = p.kernel_h == p.kernel_w && p.dilation_h == 1 && p.dilation_w == 1;
  return is_plain && (p.kernel_h == 3 || p.kernel_h == 5) ? static_cast<int>(p.kernel_h) : 0;
}

// 1 or 2, otherwise 0.
int known_stride(const Params& p) {
  const bool is_known = p.stride_h == p.stride_w && p.stride_h <= (p.direction == PROFKIT_FORWARD ? 2 : 1);
  return is_known ? static_cast<int>(p.stride_h) : 0;
}

cuda::DepthwiseProblem depthwise_problem(const Params& params, int strip) {
  cuda::DepthwiseProblem problem{};
  const cuda::ConvProblem& conv = problem.conv = cuda_problem(params);
  const bool is_gradient = params.direction == PROFKIT_INPUT_GRADIENT;
  const auto x = x_image(conv), y = y_image(conv);
  problem.is_gradient = is_gradient;
  problem.terms = is_gradient ? conv.out_per_group : 1;
  problem.first_h = is_gradient ? conv.pad_top - (conv.kernel_h - 1) : -conv.pad_top;
  problem.first_w = is_gradient ? conv.pad_left - (conv.kernel_w - 1) : -conv.pad_left;
  problem.source = is_gradient ? y : x;
  problem.target = is_gradient ? x : y;
  const int channels = is_gradient ? conv.in_channels : conv.out_channels;
  const int strips = cuda::divide_up(problem.target.height, strip);
  problem.units = static_cast<int64_t>(conv.batch) * channels * strips * problem.target.width;
  problem.by_multiplier = cuda::fast_divide(conv.out_per_group);
  problem.by_channels = cuda::fast_divide(channels);
  problem.by_width = cuda::fast_divide(problem.target.width);
  problem.by_strips = cuda::fast_divide(strips);
  problem.by_stride_h = cuda::fast_divide(conv.stride_h);
  problem.by_stride_w = cuda::fast_divide(conv.stride_w);
  return problem;
}

template <auto kernel>
void launch_images(const Params& params, const Buffers& buffers, const CudaCall& call, int strip) {
  const cuda::DepthwiseProblem problem = depthwise_problem(params, strip);
  launch<kernel>(linear_geometry(problem.units, cuda::kDepthwiseThreads), call, problem,
                 buffers.input_as<float>(0), buffers.input_as<float>(1), buffers.input_as<float>(2),
                 buffers.output_as<float>());
}

void launch_images(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const int size = known_size(params), stride = known_stride(params), strip = cuda::depthwise_strip(size);
  if (size == 3 && stride == 1) {
    launch_images<cuda::conv2d_depthwise<3, 1>>(params, buffers, call, strip);
  } else if (size == 3 && stride == 2) {
    launch_images<cuda::conv2d_depthwise<3, 2>>(params, buffers, call, strip);
  } else if (size == 5 && stride == 1) {
    launch_images<cuda::conv2d_depthwise<5, 1>>(params, buffers, call, strip);
  } else if (size == 5 && stride == 2) {
    launch_images<cuda::conv2d_depthwise<5, 2>>(params, buffers, call, strip);
  } else if (params.direction == PROFKIT_FORWARD) {
    launch_images<cuda::conv2d_depthwise_any<false>>(params, buffers, call, 1);
  } else {
    launch_images<cuda::conv2d_depthwise_any<true>>(params, buffers, call, 1);
  }
}

int filter_blocks(const Params& params) {
  const auto filters = static_cast<int>(params.out_channels);
  return params.layout == PROFKIT_NHWC ? cuda::divide_up(filters, cuda::kWarpSize) : filters;
}

int tap_blocks(const Params& params) {
  return known_size(params) > 0 ? 1 : static_cast<int>(params.kernel_h * params.kernel_w);
}

// As many as occupy the device, none with few positions only.
int splits_of(const Params& params, const CudaDevice& device) {
  const int64_t positions = params.batch * params.out_h * params.out_w;
  const int64_t blocks = int64_t{filter_blocks(params)} * tap_blocks(params);
  const int64_t wanted = cuda::divide_up(int64_t{device.multiprocessors} * kBlocksPerMultiprocessor, blocks);
  return static_cast<int>(std::clamp<int64_t>(positions / kLeastPositionsPerSplit, 1, wanted));
}

template <int kSize, bool kNhwc>
void launch_sums(const cuda::DepthwiseSum& problem, const Params& params, const Buffers& buffers,
                 const CudaCall& call, float* target, int splits) {
  launch<cuda::conv2d_depthwise_weights<kSize, kNhwc>>(
      {dimensions(filter_blocks(params), tap_blocks(params), splits), dimensions(cuda::kDepthwiseSumThreads)},
      call, problem, buffers.input_as<float>(0), buffers.input_as<float>(1), target);
}

void launch_weights(const Params& params, const Buffers& buffers, const CudaCall& call) {
  cuda::DepthwiseSum problem{};
  const cuda::ConvProblem& conv = problem.conv = cuda_problem(params);
  const int splits = splits_of(params, call.device), size = known_size(params);
  problem.positions = conv.batch * conv.out_h * conv.out_w;
  problem.positions_per_split = cuda::divide_up(problem.positions, splits);
  problem.source = x_image(conv);
  problem.gradient = y_image(conv);
  problem.by_multiplier = cuda::fast_divide(conv.out_per_group);
  problem.by_plane = cuda::fast_divide(conv.out_h * conv.out_w);
  problem.by_out_w = cuda::fast_divide(conv.out_w);
  problem.by_kernel_w = cuda::fast_divide(conv.kernel_w);
  float* const output = buffers.output_as<float>();
  float* const target = splits > 1 ? buffers.workspace_as<float>() : output;
  const auto start = conv.is_nhwc ? (size == 3   ? launch_sums<3, true>
                                     : size == 5 ? launch_sums<5, true>
                                                 : launch_sums<0, true>)
                                  : (size == 3   ? launch_sums<3, false>
                                     : size == 5 ? launch_sums<5, false>
                                                 : launch_sums<0, false>);
  start(problem, params, buffers, call, target, splits);
  if (splits == 1) return;
  launch<cuda::conv2d_add_splits<0>>(linear_geometry(weight_count(params), cuda::kAddSplitsThreads), call,
                                     static_cast<const float*>(target), output, weight_count(params), splits);
}

std::string supports(const Params& params, const CudaDevice&) {
  const std::string reason = fits_cuda(params);
  if (!reason.empty()) return reason;
  if (params.groups != params.in_channels)
    return "every input channel must have filters of its own: groups = in channels";
  if (tap_blocks(params) > kMostConvBlocksYZ)
    return "filters have at most 65535 taps, the blocks of a grid in y";
  return {};
}

size_t workspace(const Params& params, const CudaCall& call) {
  if (params.direction != PROFKIT_WEIGHT_GRADIENT) return 0;
  const int splits = splits_of(params, call.device);
  return splits > 1 ? static_cast<size_t>(weight_count(params) * splits) * sizeof(float) : 0;
}

void run(const Params& params, const Buffers& buffers, const CudaCall& call) {
  params.direction == PROFKIT_WEIGHT_GRADIENT ? launch_weights(params, buffers, call)
                                              : launch_images(params, buffers, call);
}

}  // namespace

extern const CudaEntry<Params> conv2d_depthwise_cuda;
const CudaEntry<Params> conv2d_depthwise_cuda = {supports, run, workspace};

}  // namespace profkit
