#include "kernels/cuda/row_launch.h"
#include "kernels/softmax/cuda/block_rows.cuh"
#include "kernels/softmax/cuda/warp_rows.cuh"
#include "kernels/softmax/params.h"

namespace profkit {
namespace {

using Params = profkit_softmax_params;

constexpr int64_t kLongestWarpRow = 1024;

template <class T, int kWidth, int kPerLane>
void launch_warp_rows(const Params& p, const Buffers& buffers, const CudaCall& call) {
  const int64_t blocks = cuda::divide_up(p.rows, int64_t{cuda::kSoftmaxWarpThreads / kWidth});
  launch<cuda::softmax_warp_rows<T, kWidth, kPerLane>>(
      {dimensions(blocks), dimensions(cuda::kSoftmaxWarpThreads)}, call, static_cast<int>(p.rows),
      static_cast<int>(p.classes), buffers.input_as<T>(0), buffers.output_as<T>());
}

template <class T, int kPack>
void launch_block_rows(const Params& p, const Buffers& buffers, const CudaCall& call) {
  launch<cuda::softmax_block_rows<T, kPack>>({dimensions(p.rows), dimensions(cuda::kSoftmaxBlockThreads)},
                                             call, static_cast<int>(p.classes), buffers.input_as<T>(0),
                                             buffers.output_as<T>());
}

std::string block_supports(const Params& params, const CudaDevice&) {
  if (params.direction != PROFKIT_FORWARD) return kForwardOnly;
  constexpr int64_t most = (int64_t{1} << 31) - 1024;
  if (params.rows > most || params.classes > most) {
    return "rows and columns are limited to 2147482624, the blocks of a grid and 32-bit counts";
  }
  return no_float64(params);
}

std::string warp_supports(const Params& params, const CudaDevice& device) {
  if (params.classes > kLongestWarpRow) {
    return "a warp holds at most 1024 columns in its registers, not " + std::to_string(params.classes);
  }
  return block_supports(params, device);
}

void run_warp(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = decltype(element);
    const auto start = params.classes <= 16    ? launch_warp_rows<T, 8, 2>
                       : params.classes <= 128 ? launch_warp_rows<T, 32, 4>
                                               : launch_warp_rows<T, 32, 32>;
    start(params, buffers, call);
  });
}

void run_block(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = decltype(element);
    params.classes % cuda::kFullPack<T> == 0 ? launch_block_rows<T, cuda::kFullPack<T>>(params, buffers, call)
                                             : launch_block_rows<T, 1>(params, buffers, call);
  });
}

}  // namespace

extern const CudaEntry<Params> softmax_warp_rows_cuda, softmax_block_rows_cuda;
const CudaEntry<Params> softmax_warp_rows_cuda = {warp_supports, run_warp};
const CudaEntry<Params> softmax_block_rows_cuda = {block_supports, run_block};

}  // namespace profkit
