// Launchers of the kernels that move single words: naive, coalesced, tiled_shared, register_tiled.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/row_launch.h"
#include "kernels/matmul/cuda/coalesced.cuh"
#include "kernels/matmul/cuda/kernels.h"
#include "kernels/matmul/cuda/naive.cuh"
#include "kernels/matmul/cuda/params.h"
#include "kernels/matmul/cuda/register_tiled.cuh"
#include "kernels/matmul/cuda/tiled_shared.cuh"

namespace profkit {
namespace {

constexpr int kNaiveSide = 16;
constexpr int kCoalescedRows = 8, kCoalescedColumns = 32;

dim3 matmul_grid(const profkit_matmul_params& p, int rows, int columns) {
  return dim3(static_cast<unsigned>(cuda::divide_up(p.m, int64_t{rows})),
              static_cast<unsigned>(cuda::divide_up(p.n, int64_t{columns})), static_cast<unsigned>(p.batch));
}

template <class T, auto kernel>
void start(const Geometry& geometry, const profkit_matmul_params& params, const Buffers& buffers,
           const CudaCall& call) {
  launch<kernel>(geometry, call, cuda_problem(params, contiguous_operands(params, buffers)),
                 static_cast<const T*>(buffers.inputs[0]), static_cast<const T*>(buffers.inputs[1]),
                 static_cast<const T*>(buffers.inputs[2]), static_cast<T*>(buffers.output));
}

std::string float32_tiles(const profkit_matmul_params& params, const CudaDevice& device, int columns) {
  const std::string reason = float32_only(params, device);
  return reason.empty() ? fits_cuda(params, columns) : reason;
}

}  // namespace

MatmulOperands contiguous_operands(const profkit_matmul_params& p, const Buffers& buffers) {
  return {buffers.inputs[0],
          buffers.inputs[1],
          buffers.inputs[2],
          buffers.output,
          p.transpose_a ? p.m : p.k,
          p.transpose_b ? p.k : p.n,
          p.n,
          p.m * p.k,
          p.k * p.n,
          p.m * p.n};
}

std::string matmul_naive_cuda_supports(const profkit_matmul_params& params, const CudaDevice&) {
  const std::string reason = no_float64(params);
  return reason.empty() ? fits_cuda(params, kNaiveSide) : reason;
}

void matmul_naive_cuda(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call) {
  const Geometry geometry{matmul_grid(params, kNaiveSide, kNaiveSide), dim3(kNaiveSide, kNaiveSide)};
  with_element(params.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    start<T, cuda::matmul_naive<T>>(geometry, params, buffers, call);
  });
}

std::string matmul_coalesced_cuda_supports(const profkit_matmul_params& params, const CudaDevice&) {
  const std::string reason = no_float64(params);
  return reason.empty() ? fits_cuda(params, kCoalescedColumns) : reason;
}

void matmul_coalesced_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                           const CudaCall& call) {
  const Geometry geometry{matmul_grid(params, kCoalescedRows, kCoalescedColumns),
                          dim3(kCoalescedColumns, kCoalescedRows)};
  with_element(params.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    start<T, cuda::matmul_coalesced<T>>(geometry, params, buffers, call);
  });
}

std::string matmul_tiled_shared_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device) {
  return float32_tiles(params, device, 16);
}

std::vector<std::string> matmul_tiled_shared_cuda_configurations(const profkit_matmul_params&,
                                                                 const CudaDevice&) {
  return {"32x32x32", "16x16x16"};
}

int matmul_tiled_shared_cuda_policy(const profkit_matmul_params& params, const CudaDevice& device) {
  return cuda::divide_up(params.m, int64_t{32}) * cuda::divide_up(params.n, int64_t{32}) * params.batch <
                 device.multiprocessors
             ? 1
             : 0;
}

void matmul_tiled_shared_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                              const CudaCall& call) {
  const int configuration = call.configuration == kByPolicy
                                ? matmul_tiled_shared_cuda_policy(params, call.device)
                                : call.configuration;
  if (configuration == 0) {
    start<float, cuda::matmul_tiled_shared<32>>({matmul_grid(params, 32, 32), dim3(32 * 32)}, params, buffers,
                                                call);
  } else {
    start<float, cuda::matmul_tiled_shared<16>>({matmul_grid(params, 16, 16), dim3(16 * 16)}, params, buffers,
                                                call);
  }
}

std::string matmul_register_tiled_cuda_supports(const profkit_matmul_params& params,
                                                const CudaDevice& device) {
  return float32_tiles(params, device, cuda::kRegisterTiledSide);
}

std::vector<std::string> matmul_register_tiled_cuda_configurations(const profkit_matmul_params&,
                                                                   const CudaDevice&) {
  return {"64x64x16", "64x64x8"};
}

// A deep tile has fewer barriers, a flat one wastes less on short sums.
int matmul_register_tiled_cuda_policy(const profkit_matmul_params& params, const CudaDevice&) {
  return params.k <= 8 ? 1 : 0;
}

void matmul_register_tiled_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                                const CudaCall& call) {
  const int configuration = call.configuration == kByPolicy
                                ? matmul_register_tiled_cuda_policy(params, call.device)
                                : call.configuration;
  const Geometry geometry{matmul_grid(params, cuda::kRegisterTiledSide, cuda::kRegisterTiledSide),
                          dim3(cuda::kRegisterTiledThreads)};
  if (configuration == 0) {
    start<float, cuda::matmul_register_tiled<16>>(geometry, params, buffers, call);
  } else {
    start<float, cuda::matmul_register_tiled<8>>(geometry, params, buffers, call);
  }
}

}  // namespace profkit
