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

Rows rows_of_elements(const Params& p) {
  return Rows::of_images(p.layout, p.batch, p.channels, p.height * p.width);
}
Rows rows_of_segments(const Params& p) {
  return {p.batch * cuda::divide_up(p.channels, int64_t{cuda::kLrnSegment}), p.height * p.width};
}

std::string fits_rows(const Params& params, const Rows& rows) {
  const std::string reason = no_float64(params);
  return reason.empty() ? rows.fits("the images") : reason;
}

template <class T, auto kernel>
void start(const Params& p, const Rows& rows, const Buffers& buffers, const CudaCall& call) {
  launch<kernel>(rows.geometry(), call, problem_of(p, rows.blocks()), buffers.input_as<T>(0),
                 buffers.output_as<T>());
}

std::string direct_supports(const Params& params, const CudaDevice&) {
  if (params.direction != PROFKIT_FORWARD) return kForwardOnly;
  return fits_rows(params, rows_of_elements(params));
}

void run_direct(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = decltype(element);
    start<T, cuda::lrn_direct<T>>(params, rows_of_elements(params), buffers, call);
  });
}

std::string walk_supports(const Params& params, const CudaDevice&) {
  if (params.direction != PROFKIT_FORWARD) return kForwardOnly;
  if (params.layout != PROFKIT_NCHW) return "it is written for NCHW: in NHWC its loads would be scattered";
  if (params.size != 5 && params.size != 9) {
    return "its window is 5 or 9 channels of registers, not " + std::to_string(params.size);
  }
  constexpr int64_t most = (int64_t{1} << 31) - cuda::kLrnSegment;
  if (params.channels > most) return "channels are limited to 2147483632, since they are 32-bit counts";
  return fits_rows(params, rows_of_segments(params));
}

void run_walk(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = decltype(element);
    const Rows rows = rows_of_segments(params);
    params.size == 5 ? start<T, cuda::lrn_channel_walk<T, 5>>(params, rows, buffers, call)
                     : start<T, cuda::lrn_channel_walk<T, 9>>(params, rows, buffers, call);
  });
}

}  // namespace

extern const CudaEntry<Params> lrn_direct_cuda, lrn_channel_walk_cuda;
const CudaEntry<Params> lrn_direct_cuda = {direct_supports, run_direct};
const CudaEntry<Params> lrn_channel_walk_cuda = {walk_supports, run_walk};

}  // namespace profkit
