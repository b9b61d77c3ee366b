#include "kernels/bias_relu/cuda/elementwise.cuh"

#include "kernels/bias_relu/params.h"
#include "kernels/cuda/row_launch.h"

namespace profkit {
namespace {

using Params = profkit_bias_relu_params;

Rows rows_of(const Params& p, int64_t pack) {
  return Rows::of_images(p.layout, p.batch, p.channels, p.height * p.width, pack);
}

template <class T, int kPack>
void launch_packs(const Params& p, const Buffers& buffers, const CudaCall& call) {
  const Rows rows = rows_of(p, kPack);
  const cuda::BiasReluProblem problem = {rows.blocks(), static_cast<int>(p.channels),
                                         p.layout == PROFKIT_NCHW};
  launch<cuda::bias_relu_elementwise<T, kPack>>(rows.geometry(), call, problem, buffers.input_as<T>(0),
                                                buffers.input_as<T>(1), buffers.output_as<T>());
}

std::string supports(const Params& params, const CudaDevice&) {
  if (params.direction != PROFKIT_FORWARD) return kForwardOnly;
  const std::string reason = no_float64(params);
  return reason.empty() ? rows_of(params, 1).fits("the images") : reason;
}

void run(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = decltype(element);
    rows_of(params, 1).extent % cuda::kFullPack<T> == 0
        ? launch_packs<T, cuda::kFullPack<T>>(params, buffers, call)
        : launch_packs<T, 1>(params, buffers, call);
  });
}

}  // namespace

extern const CudaEntry<Params> bias_relu_elementwise_cuda;
const CudaEntry<Params> bias_relu_elementwise_cuda = {supports, run};

}  // namespace profkit
