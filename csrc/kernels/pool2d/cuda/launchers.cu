#include "kernels/cuda/row_launch.h"
#include "kernels/pool2d/cuda/gather.cuh"
#include "kernels/pool2d/cuda/windows.cuh"
#include "kernels/pool2d/params.h"

namespace profkit {
namespace {

using Params = profkit_pool2d_params;

// One of the two image arrays, as rows of packs.
struct Rows {
  int64_t height, width, count, packs;

  Rows(const Params& p, bool is_input, int64_t pack)
      : height(is_input ? p.height : p.out_h),
        width(is_input ? p.width : p.out_w),
        count(p.layout == PROFKIT_NCHW ? p.batch * p.channels : p.batch * height * width),
        packs(p.layout == PROFKIT_NCHW ? height * width : p.channels / pack) {}

  Geometry geometry() const { return row_geometry(count, packs); }
};

cuda::PoolProblem problem_of(const Params& p, const Rows& rows) {
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  cuda::PoolProblem problem{};
  problem.blocks = row_blocks(rows.count, rows.packs);
  problem.is_nchw = p.layout == PROFKIT_NCHW;
  problem.channels = number(p.channels);
  problem.height = number(p.height);
  problem.width = number(p.width);
  problem.out_h = number(p.out_h);
  problem.out_w = number(p.out_w);
  problem.kernel_h = number(p.kernel_h);
  problem.kernel_w = number(p.kernel_w);
  problem.stride_h = number(p.stride_h);
  problem.stride_w = number(p.stride_w);
  problem.pad_top = number(p.pad_top);
  problem.pad_left = number(p.pad_left);
  problem.by_width = cuda::fast_divide(number(rows.width));
  problem.by_positions = cuda::fast_divide(number(rows.height * rows.width));
  return problem;
}

template <class T, int kPack>
void launch_forward(const Params& p, const Buffers& buffers, const CudaCall& call) {
  const Rows outputs(p, false, kPack);
  const cuda::PoolProblem problem = problem_of(p, outputs);
  const T* x = static_cast<const T*>(buffers.inputs[0]);
  T* y = static_cast<T*>(buffers.output);
  if (p.mode == PROFKIT_MAX) {
    launch<cuda::pool2d_maximum<T, kPack>>(outputs.geometry(), call, problem, x, y);
  } else {
    launch<cuda::pool2d_average<T, kPack>>(outputs.geometry(), call, problem, x, y);
  }
}

template <class T, int kPack>
void launch_gradient(const Params& p, const Buffers& buffers, const CudaCall& call) {
  const Rows outputs(p, false, kPack), inputs(p, true, kPack);
  T* dx = static_cast<T*>(buffers.output);
  if (p.mode == PROFKIT_MAX) {
    int* places = static_cast<int*>(buffers.workspace);
    launch<cuda::pool2d_places_of_maxima<T, kPack>>(outputs.geometry(), call, problem_of(p, outputs),
                                                    static_cast<const T*>(buffers.inputs[0]), places);
    launch<cuda::pool2d_gather<T, kPack, true>>(inputs.geometry(), call, problem_of(p, inputs),
                                                static_cast<const T*>(buffers.inputs[1]),
                                                static_cast<const int*>(places), dx);
  } else {
    launch<cuda::pool2d_gather<T, kPack, false>>(inputs.geometry(), call, problem_of(p, inputs),
                                                 static_cast<const T*>(buffers.inputs[0]),
                                                 static_cast<const int*>(nullptr), dx);
  }
}

template <class T, int kPack>
void launch_any(const Params& p, const Buffers& buffers, const CudaCall& call) {
  p.direction == PROFKIT_FORWARD ? launch_forward<T, kPack>(p, buffers, call)
                                 : launch_gradient<T, kPack>(p, buffers, call);
}

int64_t full_pack(const Params& p) { return p.dtype == PROFKIT_FLOAT32 ? 4 : 8; }

}  // namespace

std::string pool2d_direct_cuda_supports(const Params& params, const CudaDevice&) {
  constexpr int64_t most = int64_t{1} << 31;
  if (params.dtype == PROFKIT_FLOAT64) return no_float64(params);
  if (params.height * params.width >= most || params.out_h * params.out_w >= most) {
    return "an image must have fewer than 2^31 positions";
  }
  if (params.height + params.pad_top + params.kernel_h >= most / 2 ||
      params.width + params.pad_left + params.kernel_w >= most / 2 || params.stride_h >= most / 2 ||
      params.stride_w >= most / 2) {
    return "stride, and height and width with padding and window, must be below 2^30";
  }
  if (params.channels * params.width >= most || params.channels * params.out_w >= most) {
    return "channels times width, of the images or the results, must be below 2^31";
  }
  const Rows inputs(params, true, 1), outputs(params, false, 1);
  const std::string reason = fits_row_blocks(inputs.count, inputs.packs, "x");
  return reason.empty() ? fits_row_blocks(outputs.count, outputs.packs, "y") : reason;
}

std::string pool2d_vectorized_cuda_supports(const Params& params, const CudaDevice& device) {
  if (params.layout != PROFKIT_NHWC) return "it packs channels, which are neighbours in NHWC only";
  if (params.channels % full_pack(params) != 0) {
    return "packs of 128 bits need channels to be a multiple of " + std::to_string(full_pack(params)) +
           ", not " + std::to_string(params.channels);
  }
  return pool2d_direct_cuda_supports(params, device);
}

// The places of the maxima, for the gradient.
size_t pool2d_cuda_workspace(const Params& params, const CudaCall&) {
  if (params.direction == PROFKIT_FORWARD || params.mode != PROFKIT_MAX) return 0;
  return static_cast<size_t>(params.batch * params.channels * params.out_h * params.out_w) * sizeof(int);
}

void pool2d_direct_cuda(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype,
               [&](auto element) { launch_any<typename decltype(element)::Type, 1>(params, buffers, call); });
}

void pool2d_vectorized_cuda(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    launch_any<T, cuda::kFullPack<T>>(params, buffers, call);
  });
}

}  // namespace profkit
