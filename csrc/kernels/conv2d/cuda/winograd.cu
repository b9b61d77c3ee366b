#include "kernels/conv2d/cuda/winograd.cuh"

#include <algorithm>

#include "kernels/conv2d/cuda/params.h"
#include "kernels/cuda/launch.cuh"

namespace profkit {
namespace {

using Params = profkit_conv2d_params;

constexpr int kChannelStep = 2 * cuda::kConvDepth;

cuda::WinogradProblem winograd_problem(const Params& params, int tile) {
  const auto padded = [](int count, int step) { return cuda::divide_up(count, step) * step; };
  cuda::WinogradProblem problem{};
  set_sides(problem, params);
  const cuda::ConvProblem& conv = problem.conv;
  const bool is_gradient = problem.is_gradient != 0;
  const int outputs = cuda::winograd_outputs(conv.kernel_h);
  // dx[h] sums dy[h + pad - r]: rotated filters begin kernel - 1 before.
  problem.source_first_h = is_gradient ? conv.pad_top - (conv.kernel_h - 1) : -conv.pad_top;
  problem.source_first_w = is_gradient ? conv.pad_left - (conv.kernel_w - 1) : -conv.pad_left;
  problem.target = is_gradient ? conv.x : conv.y;
  problem.target_height = is_gradient ? conv.height : conv.out_h;
  problem.target_width = is_gradient ? conv.width : conv.out_w;
  const int tiles_h = cuda::divide_up(problem.target_height, outputs);
  const int tiles_w = cuda::divide_up(problem.target_width, outputs);
  problem.by_plane = cuda::fast_divide(tiles_h * tiles_w);
  problem.by_tiles_w = cuda::fast_divide(tiles_w);
  problem.positions = conv.batch * tiles_h * tiles_w;
  problem.padded_channels = padded(problem.channels, kChannelStep);
  problem.padded_results = padded(problem.results, tile);
  problem.padded_positions = padded(problem.positions, tile);
  return problem;
}

// Elements of the workspace's three parts; behind the operands of the products lies one slice that is read.
struct WinogradParts {
  int64_t filters, sources, sums;
};
WinogradParts winograd_parts(const cuda::WinogradProblem& problem) {
  const int64_t matrices = int64_t{cuda::kWinogradArea} * problem.conv.groups;
  const int64_t depth = matrices * problem.padded_channels + cuda::kConvDepth;
  return {depth * problem.padded_results, depth * problem.padded_positions,
          matrices * problem.padded_results * problem.padded_positions};
}

dim3 transform_grid(int lanes, int turns, int groups) {
  return dimensions(cuda::divide_up(lanes, cuda::kWinogradLanes),
                    cuda::divide_up(turns, cuda::kWinogradTurns), groups);
}

template <int kTile>
void launch_products(const cuda::WinogradProblem& problem, const CudaCall& call, const float* filters,
                     const float* sources, float* sums) {
  const int64_t channels = problem.padded_channels, results = problem.padded_results,
                positions = problem.padded_positions;
  const cuda::WinogradProducts sizes{
      problem.padded_channels, static_cast<unsigned>(results), static_cast<unsigned>(positions),
      channels * results,      channels * positions,           results * positions};
  launch<cuda::conv2d_winograd_products<kTile>>(
      {dimensions(positions / kTile, results / kTile, problem.conv.groups * cuda::kWinogradArea),
       dimensions(cuda::TilePlace<kTile, kTile>::kThreads)},
      call, sizes, filters, sources, sums);
}

template <int kTaps>
void launch_winograd(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const int tile = kConvTiles[call.configuration];
  const cuda::WinogradProblem problem = winograd_problem(params, tile);
  const WinogradParts parts = winograd_parts(problem);
  float* const filters = buffers.workspace_as<float>();
  float* const sources = filters + parts.filters;
  float* const sums = sources + parts.sources;
  const dim3 block = dimensions(cuda::kWinogradLanes, cuda::kWinogradTurns);
  const int groups = problem.conv.groups;
  launch<cuda::conv2d_winograd_filters<kTaps>>(
      {transform_grid(problem.padded_results, problem.padded_channels, groups), block}, call, problem,
      buffers.input_as<float>(1), filters);
  launch<cuda::conv2d_winograd_sources<kTaps>>(
      {transform_grid(problem.padded_positions, problem.padded_channels, groups), block}, call, problem,
      buffers.input_as<float>(0), sources);
  tile == 128 ? launch_products<128>(problem, call, filters, sources, sums)
              : launch_products<64>(problem, call, filters, sources, sums);
  launch<cuda::conv2d_winograd_targets<kTaps>>(
      {transform_grid(problem.positions, problem.results, groups), block}, call, problem,
      static_cast<const float*>(sums), buffers.input_as<float>(2), buffers.output_as<float>());
}

std::string supports(const Params& params, const CudaDevice&) {
  const std::string reason = fits_cuda(params);
  if (!reason.empty()) return reason;
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) {
    return "the weight gradient needs another transform; implemented are those of forward and the input "
           "gradient";
  }
  if (params.kernel_h != params.kernel_w || (params.kernel_h != 3 && params.kernel_h != 5)) {
    return "transforms are written for filters of 3x3 and 5x5";
  }
  if (params.stride_h != 1 || params.stride_w != 1)
    return "neighbouring results must share taps: stride 1 only";
  if (params.dilation_h != 1 || params.dilation_w != 1) return "taps must be neighbours: dilation 1 only";
  if (params.groups * cuda::kWinogradArea > kMostConvBlocksYZ) {
    return "groups must be at most 1820: 36 products each are blocks of a grid in z";
  }
  const cuda::WinogradProblem problem = winograd_problem(params, kConvTiles[0]);
  const int64_t most = int64_t{1} << 31;
  const int64_t widest = std::max(problem.padded_channels, problem.padded_results);
  if (widest * problem.padded_positions >= most || widest * problem.padded_results >= most) {
    return "a matrix of transformed tiles, channels times tiles of all images, must have fewer than 2^31 "
           "elements";
  }
  return {};
}

size_t workspace(const Params& params, const CudaCall& call) {
  const WinogradParts parts = winograd_parts(winograd_problem(params, kConvTiles[call.configuration]));
  return static_cast<size_t>(parts.filters + parts.sources + parts.sums) * sizeof(float);
}

void run(const Params& params, const Buffers& buffers, const CudaCall& call) {
  params.kernel_h == 3 ? launch_winograd<3>(params, buffers, call)
                       : launch_winograd<5>(params, buffers, call);
}

// There are always 36 products: small tiles only where large ones would be mostly padding.
int policy(const Params& params, const CudaDevice&) {
  const bool is_gradient = params.direction == PROFKIT_INPUT_GRADIENT;
  const int64_t results = (is_gradient ? params.in_channels : params.out_channels) / params.groups;
  return results > 64 ? 0 : 1;
}

}  // namespace

extern const CudaEntry<Params> conv2d_winograd_cuda;
const CudaEntry<Params> conv2d_winograd_cuda = {supports, run, workspace, conv_tile_names, policy};

}  // namespace profkit
