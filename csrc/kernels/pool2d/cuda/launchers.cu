#include "kernels/cuda/row_launch.h"
#include "kernels/cuda/window_fields.h"
#include "kernels/pool2d/cuda/gather.cuh"
#include "kernels/pool2d/cuda/windows.cuh"
#include "kernels/pool2d/params.h"

namespace profkit {
namespace {

using Params = profkit_pool2d_params;

// Of one of the two image arrays, in packs of channels, whose number is 1 in NCHW.
Rows rows_of(const Params& p, bool is_input, int64_t pack) {
  return Rows::of_images(p.layout, p.batch, p.channels, is_input ? p.height * p.width : p.out_h * p.out_w,
                         pack);
}

// The problem, and the rows, of the kernel that writes one of the two arrays.
struct Written {
  Rows rows;
  cuda::PoolProblem problem{};

  Written(const Params& p, bool is_input, int64_t pack) : rows(rows_of(p, is_input, pack)) {
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    const int width = number(is_input ? p.width : p.out_w), height = number(is_input ? p.height : p.out_h);
    problem.blocks = rows.blocks();
    problem.is_nchw = p.layout == PROFKIT_NCHW;
    problem.channels = number(p.channels);
    set_window_fields(problem, p);
    problem.by_width = cuda::fast_divide(width);
    problem.by_positions = cuda::fast_divide(height * width);
  }

  template <auto kernel, class... Arrays>
  void run(const CudaCall& call, Arrays... arrays) const {
    launch<kernel>(rows.geometry(), call, problem, arrays...);
  }
};

template <class T, int kPack>
void launch_packs(const Params& p, const Buffers& buffers, const CudaCall& call) {
  const Written outputs(p, false, kPack), inputs(p, true, kPack);
  const T* const first = buffers.input_as<T>(0);
  T* const output = buffers.output_as<T>();
  int* const places = buffers.workspace_as<int>();
  if (p.direction == PROFKIT_FORWARD) {
    p.mode == PROFKIT_MAX ? outputs.run<cuda::pool2d_maximum<T, kPack>>(call, first, output)
                          : outputs.run<cuda::pool2d_average<T, kPack>>(call, first, output);
  } else if (p.mode == PROFKIT_MAX) {
    outputs.run<cuda::pool2d_places_of_maxima<T, kPack>>(call, first, places);
    inputs.run<cuda::pool2d_gather<T, kPack, true>>(call, buffers.input_as<T>(1),
                                                    static_cast<const int*>(places), output);
  } else {
    inputs.run<cuda::pool2d_gather<T, kPack, false>>(call, first, static_cast<const int*>(nullptr), output);
  }
}

std::string direct_supports(const Params& params, const CudaDevice&) {
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
  const std::string reason = rows_of(params, true, 1).fits("x");
  return reason.empty() ? rows_of(params, false, 1).fits("y") : reason;
}

std::string vectorized_supports(const Params& params, const CudaDevice& device) {
  if (params.layout != PROFKIT_NHWC) return "it packs channels, which are neighbours in NHWC only";
  const int64_t pack = params.dtype == PROFKIT_FLOAT32 ? 4 : 8;
  if (params.channels % pack != 0) {
    return "packs of 128 bits need channels to be a multiple of " + std::to_string(pack) + ", not " +
           std::to_string(params.channels);
  }
  return direct_supports(params, device);
}

// The places of the maxima, for the gradient.
size_t workspace(const Params& params, const CudaCall&) {
  if (params.direction == PROFKIT_FORWARD || params.mode != PROFKIT_MAX) return 0;
  return static_cast<size_t>(params.batch * params.channels * params.out_h * params.out_w) * sizeof(int);
}

void run_direct(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype,
               [&](auto element) { launch_packs<decltype(element), 1>(params, buffers, call); });
}

void run_vectorized(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = decltype(element);
    launch_packs<T, cuda::kFullPack<T>>(params, buffers, call);
  });
}

}  // namespace

extern const CudaEntry<Params> pool2d_direct_cuda, pool2d_vectorized_cuda;
const CudaEntry<Params> pool2d_direct_cuda = {direct_supports, run_direct, workspace};
const CudaEntry<Params> pool2d_vectorized_cuda = {vectorized_supports, run_vectorized, workspace};

}  // namespace profkit
