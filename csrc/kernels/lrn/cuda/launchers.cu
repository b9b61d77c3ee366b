#include "kernels/cuda/row_launch.h"
#include "kernels/lrn/cuda/channel_walk.cuh"
#include "kernels/lrn/cuda/direct.cuh"
#include "kernels/lrn/params.h"

namespace profkit {
namespace {

using Params = profkit_lrn_params;

cuda::LrnPower power_of(double beta) {
  if (beta == 0.5) return cuda::LrnPower::half;
  if (beta == 0.75) return cuda::LrnPower::three_quarters;
  return beta == 1.0 ? cuda::LrnPower::one : cuda::LrnPower::any;
}

cuda::LrnProblem problem_of(const Params& p, const cuda::RowBlocks& blocks) {
  const bool is_nchw = p.layout == PROFKIT_NCHW;
  // Beyond the channels there is nothing to add.
  const auto reach = [&](int64_t channels) {
    return static_cast<int>(channels < p.channels ? channels : p.channels);
  };
  cuda::LrnProblem problem{};
  problem.blocks = blocks;
  problem.channels = static_cast<int>(p.channels);
  problem.positions = static_cast<int>(p.height * p.width);
  problem.before = reach(p.size / 2);
  problem.after = reach((p.size - 1) / 2);
  problem.channel_step = is_nchw ? problem.positions : 1;
  problem.channel_by_row = is_nchw;
  problem.scale = static_cast<float>(p.alpha / static_cast<double>(p.size));
  problem.k = static_cast<float>(p.k);
  problem.minus_beta = static_cast<float>(-p.beta);
  problem.power = power_of(p.beta);
  return problem;
}

struct Rows {
  int64_t count, extent;
};

Rows rows_of_elements(const Params& p) {
  if (p.layout == PROFKIT_NCHW) return {p.batch * p.channels, p.height * p.width};
  return {p.batch * p.height * p.width, p.channels};
}

Rows rows_of_segments(const Params& p) {
  return {p.batch * cuda::divide_up(p.channels, int64_t{cuda::kLrnSegment}), p.height * p.width};
}

template <class T, int kSize>
void launch_walk(const Params& p, const Buffers& buffers, const CudaCall& call) {
  const Rows rows = rows_of_segments(p);
  launch<cuda::lrn_channel_walk<T, kSize>>(
      row_geometry(rows.count, rows.extent), call, problem_of(p, row_blocks(rows.count, rows.extent)),
      static_cast<const T*>(buffers.inputs[0]), static_cast<T*>(buffers.output));
}

}  // namespace

std::string lrn_direct_cuda_supports(const Params& params, const CudaDevice&) {
  const Rows rows = rows_of_elements(params);
  const std::string reason = no_float64(params);
  return reason.empty() ? fits_row_blocks(rows.count, rows.extent, "the images") : reason;
}

void lrn_direct_cuda(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const Rows rows = rows_of_elements(params);
  with_element(params.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    launch<cuda::lrn_direct<T>>(row_geometry(rows.count, rows.extent), call,
                                problem_of(params, row_blocks(rows.count, rows.extent)),
                                static_cast<const T*>(buffers.inputs[0]), static_cast<T*>(buffers.output));
  });
}

std::string lrn_channel_walk_cuda_supports(const Params& params, const CudaDevice&) {
  if (params.layout != PROFKIT_NCHW) return "it is written for NCHW: in NHWC its loads would be scattered";
  if (params.size != 5 && params.size != 9) {
    return "its window is 5 or 9 channels of registers, not " + std::to_string(params.size);
  }
  constexpr int64_t most = (int64_t{1} << 31) - cuda::kLrnSegment;
  if (params.channels > most) return "channels are limited to 2147483632, since they are 32-bit counts";
  const Rows rows = rows_of_segments(params);
  const std::string reason = no_float64(params);
  return reason.empty() ? fits_row_blocks(rows.count, rows.extent, "the images") : reason;
}

void lrn_channel_walk_cuda(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    params.size == 5 ? launch_walk<T, 5>(params, buffers, call) : launch_walk<T, 9>(params, buffers, call);
  });
}

}  // namespace profkit
