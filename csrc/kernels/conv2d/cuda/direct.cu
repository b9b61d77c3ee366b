#include "kernels/conv2d/cuda/direct.cuh"

#include "kernels/conv2d/cuda/image_launch.h"

namespace profkit {
namespace {

using Params = profkit_conv2d_params;

WrittenImages results(const Params& p) { return {p, p.direction == PROFKIT_FORWARD, p.batch}; }

// Rows are weights, and their extent is the number of terms of each sum.
cuda::ImageRows weight_problem(const Params& p) {
  cuda::ImageRows problem = WrittenImages(p, true, p.batch).problem();
  problem.blocks.rows = static_cast<int>(weight_count(p));
  problem.blocks.extent = static_cast<int>(p.batch * p.out_h * p.out_w);
  return problem;
}

std::string supports(const Params& params, const CudaDevice&) {
  const std::string reason = fits_cuda(params);
  return reason.empty() ? results(params).rows.fits("the images") : reason;
}

void run(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const auto* first = buffers.input_as<float>(0);
  const auto* second = buffers.input_as<float>(1);
  auto* output = buffers.output_as<float>();
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) {
    const int64_t blocks = cuda::divide_up(weight_count(params), int64_t{cuda::kDirectWarps});
    launch<cuda::conv2d_direct_weight_gradient<float>>(
        {dimensions(blocks), dimensions(cuda::RowBlocks::kThreads)}, call, weight_problem(params), first,
        second, output);
    return;
  }
  const WrittenImages images = results(params);
  if (params.direction == PROFKIT_FORWARD) {
    launch<cuda::conv2d_direct_forward<float>>(images.rows.geometry(), call, images.problem(), first, second,
                                               buffers.input_as<float>(2), output);
  } else {
    launch<cuda::conv2d_direct_input_gradient<float>>(images.rows.geometry(), call, images.problem(), first,
                                                      second, output);
  }
}

}  // namespace

extern const CudaEntry<Params> conv2d_direct_cuda;
const CudaEntry<Params> conv2d_direct_cuda = {supports, run};

}  // namespace profkit
