#include "kernels/bias_relu/cuda/elementwise.cuh"

#include "kernels/bias_relu/params.h"
#include "kernels/cuda/row_launch.h"

namespace profkit {
namespace {

struct Rows {
  int64_t count, extent;

  explicit Rows(const profkit_bias_relu_params& p)
      : count(p.layout == PROFKIT_NCHW ? p.batch * p.channels : p.batch * p.height * p.width),
        extent(p.layout == PROFKIT_NCHW ? p.height * p.width : p.channels) {}
};

template <class T, int kPack>
void launch_packs(const profkit_bias_relu_params& p, const Buffers& buffers, const CudaCall& call) {
  const Rows rows(p);
  const int64_t packs = rows.extent / kPack;
  const cuda::BiasReluProblem problem = {row_blocks(rows.count, packs), static_cast<int>(p.channels),
                                         p.layout == PROFKIT_NCHW};
  launch<cuda::bias_relu_elementwise<T, kPack>>(
      row_geometry(rows.count, packs), call, problem, static_cast<const T*>(buffers.inputs[0]),
      static_cast<const T*>(buffers.inputs[1]), static_cast<T*>(buffers.output));
}

}  // namespace

std::string bias_relu_elementwise_cuda_supports(const profkit_bias_relu_params& params, const CudaDevice&) {
  const Rows rows(params);
  const std::string reason = no_float64(params);
  return reason.empty() ? fits_row_blocks(rows.count, rows.extent, "the images") : reason;
}

void bias_relu_elementwise_cuda(const profkit_bias_relu_params& params, const Buffers& buffers,
                                const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    if (Rows(params).extent % cuda::kFullPack<T> == 0) {
      launch_packs<T, cuda::kFullPack<T>>(params, buffers, call);
    } else {
      launch_packs<T, 1>(params, buffers, call);
    }
  });
}

}  // namespace profkit
