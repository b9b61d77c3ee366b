#include "kernels/cuda/row_launch.h"
#include "kernels/softmax/cuda/block_rows.cuh"
#include "kernels/softmax/cuda/warp_rows.cuh"
#include "kernels/softmax/params.h"

namespace profkit {
namespace {

constexpr int64_t kLongestWarpRow = 1024;

template <class T, int kWidth, int kPerLane>
void launch_warp_rows(const profkit_softmax_params& p, const Buffers& buffers, const CudaCall& call) {
  const int64_t blocks = cuda::divide_up(p.rows, int64_t{cuda::kSoftmaxWarpThreads / kWidth});
  launch<cuda::softmax_warp_rows<T, kWidth, kPerLane>>(
      {dim3(static_cast<unsigned>(blocks)), dim3(cuda::kSoftmaxWarpThreads)}, call, static_cast<int>(p.rows),
      static_cast<int>(p.classes), static_cast<const T*>(buffers.inputs[0]), static_cast<T*>(buffers.output));
}

template <class T, int kPack>
void launch_block_rows(const profkit_softmax_params& p, const Buffers& buffers, const CudaCall& call) {
  launch<cuda::softmax_block_rows<T, kPack>>(
      {dim3(static_cast<unsigned>(p.rows)), dim3(cuda::kSoftmaxBlockThreads)}, call,
      static_cast<int>(p.classes), static_cast<const T*>(buffers.inputs[0]), static_cast<T*>(buffers.output));
}

}  // namespace

std::string softmax_block_rows_cuda_supports(const profkit_softmax_params& params, const CudaDevice&) {
  constexpr int64_t most = (int64_t{1} << 31) - 1024;
  if (params.rows > most || params.classes > most) {
    return "rows and columns are limited to 2147482624, the blocks of a grid and 32-bit counts";
  }
  return no_float64(params);
}

std::string softmax_warp_rows_cuda_supports(const profkit_softmax_params& params, const CudaDevice& device) {
  if (params.classes > kLongestWarpRow) {
    return "a warp holds at most 1024 columns in its registers, not " + std::to_string(params.classes);
  }
  return softmax_block_rows_cuda_supports(params, device);
}

void softmax_warp_rows_cuda(const profkit_softmax_params& params, const Buffers& buffers,
                            const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    if (params.classes <= 16) {
      launch_warp_rows<T, 8, 2>(params, buffers, call);
    } else if (params.classes <= 128) {
      launch_warp_rows<T, 32, 4>(params, buffers, call);
    } else {
      launch_warp_rows<T, 32, 32>(params, buffers, call);
    }
  });
}

void softmax_block_rows_cuda(const profkit_softmax_params& params, const Buffers& buffers,
                             const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    if (params.classes % cuda::kFullPack<T> == 0) {
      launch_block_rows<T, cuda::kFullPack<T>>(params, buffers, call);
    } else {
      launch_block_rows<T, 1>(params, buffers, call);
    }
  });
}

}  // namespace profkit
