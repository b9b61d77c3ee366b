#include "kernels/conv2d/cuda/direct.cuh"

#include "kernels/conv2d/cuda/image_launch.h"
#include "kernels/conv2d/cuda/kernels.h"

namespace profkit {
namespace {

using Params = profkit_conv2d_params;

WrittenImages results(const Params& p) {
  return p.direction == PROFKIT_FORWARD ? output_images(p, p.batch) : input_images(p, p.batch);
}

// Rows are weights, and their extent is the number of terms of each sum.
cuda::ImageRows weight_problem(const Params& p) {
  cuda::ImageRows problem = output_images(p, p.batch).problem(p);
  problem.blocks.rows = static_cast<int>(weight_count(p));
  problem.blocks.extent = static_cast<int>(p.batch * p.out_h * p.out_w);
  return problem;
}

}  // namespace

std::string conv2d_direct_cuda_supports(const Params& params, const CudaDevice& device) {
  std::string reason = float32_only(params, device);
  if (reason.empty()) reason = fits_cuda(params);
  return reason.empty() ? results(params).fits() : reason;
}

void conv2d_direct_cuda(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const auto* first = static_cast<const float*>(buffers.inputs[0]);
  const auto* second = static_cast<const float*>(buffers.inputs[1]);
  auto* output = static_cast<float*>(buffers.output);
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) {
    const int64_t blocks = cuda::divide_up(weight_count(params), int64_t{cuda::kDirectWarps});
    launch<cuda::conv2d_direct_weight_gradient<float>>(
        {dim3(static_cast<unsigned>(blocks)), dim3(cuda::RowBlocks::kThreads)}, call, weight_problem(params),
        first, second, output);
    return;
  }
  const WrittenImages images = results(params);
  if (params.direction == PROFKIT_FORWARD) {
    launch<cuda::conv2d_direct_forward<float>>(images.geometry(), call, images.problem(params), first, second,
                                               static_cast<const float*>(buffers.inputs[2]), output);
  } else {
    launch<cuda::conv2d_direct_input_gradient<float>>(images.geometry(), call, images.problem(params), first,
                                                      second, output);
  }
}

}  // namespace profkit
