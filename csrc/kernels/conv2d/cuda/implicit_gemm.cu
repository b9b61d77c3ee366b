#include "kernels/conv2d/cuda/implicit_gemm.cuh"

#include <algorithm>

#include "kernels/conv2d/cuda/params.h"
#include "kernels/conv2d/cuda/weight_product.cuh"
#include "kernels/cuda/launch.cuh"

namespace profkit {
namespace {

using Params = profkit_conv2d_params;

constexpr int kPackSide = 32, kPackTurns = 4;

bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

int greatest_common_divisor(int a, int b) { return b == 0 ? a : greatest_common_divisor(b, a % b); }

// The most taps of an axis in any phase.
int most_taps(int kernel, int stride, int dilation) {
  return (kernel - 1) / (stride / greatest_common_divisor(dilation, stride)) + 1;
}

cuda::ImageProduct image_product(const Params& params, int tile) {
  cuda::ImageProduct product{};
  set_sides(product, params);
  const cuda::ConvProblem& conv = product.conv;
  const bool is_gradient = product.is_gradient != 0;
  product.by_channels = cuda::fast_divide(product.channels);
  product.phases_h = is_gradient ? std::min(conv.stride_h, conv.height) : 1;
  product.phases_w = is_gradient ? std::min(conv.stride_w, conv.width) : 1;
  const int taps = is_gradient ? most_taps(conv.kernel_h, conv.stride_h, conv.dilation_h) *
                                     most_taps(conv.kernel_w, conv.stride_w, conv.dilation_w)
                               : conv.kernel_h * conv.kernel_w;
  product.depth_rows = (cuda::slices_of(product.channels * taps) + 1) * cuda::kConvDepth;
  product.packed_columns = cuda::divide_up(product.results, tile) * tile;
  const cuda::ImageSteps& target = is_gradient ? conv.x : conv.y;
  product.target_image_step = static_cast<unsigned>(target.image);
  product.target_channel_step = static_cast<unsigned>(target.channel);
  product.target_row_step = static_cast<unsigned>(target.row);
  product.target_column_step = static_cast<unsigned>(target.column);
  return product;
}

int64_t blocks_z(const cuda::ImageProduct& product) {
  return static_cast<int64_t>(product.conv.groups) * product.phases_h * product.phases_w;
}

void launch_image_product(const Params& params, const Buffers& buffers, const CudaCall& call, int tile) {
  cuda::ImageProduct product = image_product(params, tile);
  const bool is_nhwc = product.conv.is_nhwc != 0;
  product.quads_of_targets = is_aligned(buffers.output) &&
                             (is_nhwc ? product.results % 4 == 0 : product.target_channel_step % 4 == 0);
  const bool has_quads = is_nhwc && product.channels % 4 == 0 && is_aligned(buffers.inputs[0]);
  launch<cuda::conv2d_implicit_gemm_pack<kPackSide>>(
      {dimensions(cuda::divide_up(product.depth_rows, kPackSide),
                  cuda::divide_up(product.packed_columns, kPackSide), blocks_z(product)),
       dimensions(kPackSide, kPackTurns)},
      call, product, buffers.input_as<float>(1), buffers.workspace_as<float>());
  const int64_t positions = static_cast<int64_t>(product.conv.batch) * product.rows(0).count *
                            product.columns(0).count;  // no phase has more than the first
  with_instance(tile, has_quads, [&](auto side, auto quads) {
    constexpr int kTile = decltype(side)::value;
    launch<cuda::conv2d_implicit_gemm<kTile, kTile, decltype(quads)::value>>(
        {dimensions(cuda::divide_up(positions, int64_t{kTile}), product.packed_columns / kTile,
                    blocks_z(product)),
         dimensions(cuda::TilePlace<kTile, kTile>::kThreads)},
        call, product, buffers.input_as<float>(0), static_cast<const float*>(buffers.workspace),
        buffers.input_as<float>(2), buffers.output_as<float>());
  });
}

constexpr int kLeastTermsPerSplit = 256;  // below, adding up costs more than it saves

cuda::WeightProduct weight_product(const Params& params, int tile, const CudaDevice& device) {
  cuda::WeightProduct product{};
  const cuda::ConvProblem& conv = product.conv = cuda_problem(params);
  const int taps = conv.kernel_h * conv.kernel_w, plane = conv.out_h * conv.out_w;
  product.rows = conv.in_per_group * taps;
  product.columns = conv.out_per_group;
  product.depth = conv.batch * plane;
  product.weights = static_cast<int64_t>(conv.out_channels) * product.rows;
  product.by_taps = cuda::fast_divide(taps);
  product.by_kernel_w = cuda::fast_divide(conv.kernel_w);
  product.by_channels = cuda::fast_divide(conv.in_per_group);
  product.by_plane = cuda::fast_divide(plane);
  product.by_out_w = cuda::fast_divide(conv.out_w);
  product.source = x_image(conv);
  product.gradient = y_image(conv);
  const int64_t tiles = static_cast<int64_t>(cuda::divide_up(product.rows, tile)) *
                        cuda::divide_up(product.columns, tile) * conv.groups;
  // As many blocks as the device holds at once.
  const int64_t at_once = static_cast<int64_t>(device.multiprocessors) * (tile == 128 ? 2 : 6);
  const int64_t most =
      std::min<int64_t>(product.depth / kLeastTermsPerSplit, kMostConvBlocksYZ / conv.groups);
  const int64_t wanted = std::max<int64_t>(1, std::min(at_once / tiles, most));
  constexpr int step = 2 * cuda::kConvDepth;
  product.terms_per_split =
      static_cast<int>(cuda::divide_up(cuda::divide_up(int64_t{product.depth}, wanted), int64_t{step})) *
      step;
  product.splits = cuda::divide_up(product.depth, product.terms_per_split);
  return product;
}

void launch_weight_product(const Params& params, const Buffers& buffers, const CudaCall& call, int tile) {
  const cuda::WeightProduct product = weight_product(params, tile, call.device);
  float* const output = buffers.output_as<float>();
  float* const target = product.splits > 1 ? buffers.workspace_as<float>() : output;
  with_instance(tile, product.conv.is_nhwc == 0, [&](auto side, auto is_along_depth) {
    constexpr int kTile = decltype(side)::value;
    launch<cuda::conv2d_implicit_gemm_weights<kTile, decltype(is_along_depth)::value>>(
        {dimensions(cuda::divide_up(product.rows, kTile), cuda::divide_up(product.columns, kTile),
                    product.conv.groups * product.splits),
         dimensions(cuda::TilePlace<kTile, kTile>::kThreads)},
        call, product, buffers.input_as<float>(0), buffers.input_as<float>(1), target);
  });
  if (product.splits == 1) return;
  launch<cuda::conv2d_add_splits<0>>(linear_geometry(product.weights, cuda::kAddSplitsThreads), call,
                                     static_cast<const float*>(target), output, product.weights,
                                     product.splits);
}

std::string supports(const Params& params, const CudaDevice&) {
  const std::string reason = fits_cuda(params);
  if (!reason.empty()) return reason;
  if (params.kernel_h > cuda::kMostTaps || params.kernel_w > cuda::kMostTaps) {
    return "which taps lie in the padding is kept as bits of one word: filters have at most 15 rows and "
           "columns";
  }
  if (params.groups > kMostConvBlocksYZ) return "groups must be at most 65535, the blocks of a grid in z";
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) return {};
  const cuda::ImageProduct product = image_product(params, kConvTiles[0]);
  if (blocks_z(product) > kMostConvBlocksYZ) {
    return "groups times phases of the gradient (one per position in the stride) must be at most 65535";
  }
  if (static_cast<int64_t>(product.depth_rows) * product.packed_columns >= int64_t{1} << 31) {
    return "the weights of a group, padded to whole tiles, must have fewer than 2^31 elements";
  }
  return {};
}

size_t workspace(const Params& params, const CudaCall& call) {
  const int tile = kConvTiles[call.configuration];
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) {
    const cuda::WeightProduct product = weight_product(params, tile, call.device);
    return product.splits > 1 ? static_cast<size_t>(product.weights * product.splits) * sizeof(float) : 0;
  }
  const cuda::ImageProduct product = image_product(params, tile);
  return static_cast<size_t>(blocks_z(product) * product.depth_rows * product.packed_columns) * sizeof(float);
}

void run(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const int tile = kConvTiles[call.configuration];
  params.direction == PROFKIT_WEIGHT_GRADIENT ? launch_weight_product(params, buffers, call, tile)
                                              : launch_image_product(params, buffers, call, tile);
}

// Large tiles read least; where they cannot occupy every multiprocessor, or columns are few, small ones do.
// The depth of a weight gradient is split until all are occupied.
int policy(const Params& params, const CudaDevice& device) {
  const bool is_gradient = params.direction == PROFKIT_INPUT_GRADIENT;
  const int64_t results = (is_gradient ? params.in_channels : params.out_channels) / params.groups;
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) {
    return results > 64 && params.in_channels / params.groups * params.kernel_h * params.kernel_w > 64 ? 0
                                                                                                       : 1;
  }
  const int64_t plane = is_gradient ? params.height * params.width : params.out_h * params.out_w;
  const int64_t tiles = cuda::divide_up(params.batch * plane, int64_t{128}) *
                        cuda::divide_up(results, int64_t{128}) * params.groups;
  return results > 64 && tiles >= device.multiprocessors ? 0 : 1;
}

}  // namespace

extern const CudaEntry<Params> conv2d_implicit_gemm_cuda;
const CudaEntry<Params> conv2d_implicit_gemm_cuda = {supports, run, workspace, conv_tile_names, policy};

}  // namespace profkit
