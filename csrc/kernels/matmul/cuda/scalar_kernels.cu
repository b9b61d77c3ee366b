// Launchers of the kernels that move single words: naive, coalesced, tiled_shared, register_tiled.
#include "kernels/cuda/row_launch.h"
#include "kernels/matmul/cuda/coalesced.cuh"
#include "kernels/matmul/cuda/naive.cuh"
#include "kernels/matmul/cuda/register_tiled.cuh"
#include "kernels/matmul/cuda/tile_launch.h"
#include "kernels/matmul/cuda/tiled_shared.cuh"

namespace profkit {
namespace {

using Params = profkit_matmul_params;

constexpr int kNaiveSide = 16;
constexpr int kCoalescedRows = 8, kCoalescedColumns = 32;
constexpr int kRegisterSide = cuda::kRegisterTiledSide;

template <class T, auto kernel>
void start(int rows, int columns, dim3 block, const Params& params, const Buffers& buffers,
           const CudaCall& call) {
  const MatmulOperands operands = contiguous_operands(params, buffers);
  launch_product<T, kernel>({product_grid(params, rows, columns, params.batch), block}, call,
                            cuda_problem(params, operands), operands);
}

template <int kColumns>
std::string elements_support(const Params& params, const CudaDevice&) {
  const std::string reason = no_float64(params);
  return reason.empty() ? fits_cuda(params, kColumns) : reason;
}

template <int kColumns>
std::string tiles_support(const Params& params, const CudaDevice&) {
  return fits_float32(params, kColumns);
}

void run_naive(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = decltype(element);
    start<T, cuda::matmul_naive<T>>(kNaiveSide, kNaiveSide, dimensions(kNaiveSide, kNaiveSide), params,
                                    buffers, call);
  });
}

void run_coalesced(const Params& params, const Buffers& buffers, const CudaCall& call) {
  with_element(params.dtype, [&](auto element) {
    using T = decltype(element);
    start<T, cuda::matmul_coalesced<T>>(kCoalescedRows, kCoalescedColumns,
                                        dimensions(kCoalescedColumns, kCoalescedRows), params, buffers, call);
  });
}

std::vector<std::string> shared_names(const Params&, const CudaDevice&) { return {"32x32x32", "16x16x16"}; }

int shared_policy(const Params& params, const CudaDevice& device) {
  const dim3 grid = product_grid(params, 32, 32, params.batch);
  return int64_t{grid.x} * grid.y * grid.z < device.multiprocessors ? 1 : 0;
}

void run_shared(const Params& params, const Buffers& buffers, const CudaCall& call) {
  call.configuration == 0
      ? start<float, cuda::matmul_tiled_shared<32>>(32, 32, dimensions(32 * 32), params, buffers, call)
      : start<float, cuda::matmul_tiled_shared<16>>(16, 16, dimensions(16 * 16), params, buffers, call);
}

std::vector<std::string> register_names(const Params&, const CudaDevice&) { return {"64x64x16", "64x64x8"}; }

// A deep tile has fewer barriers, a flat one wastes less on short sums.
int register_policy(const Params& params, const CudaDevice&) { return params.k <= 8 ? 1 : 0; }

void run_register(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const auto start_depth = call.configuration == 0 ? start<float, cuda::matmul_register_tiled<16>>
                                                   : start<float, cuda::matmul_register_tiled<8>>;
  start_depth(kRegisterSide, kRegisterSide, dimensions(cuda::kRegisterTiledThreads), params, buffers, call);
}

}  // namespace

extern const CudaEntry<Params> matmul_naive_cuda, matmul_coalesced_cuda, matmul_tiled_shared_cuda,
    matmul_register_tiled_cuda;
const CudaEntry<Params> matmul_naive_cuda = {elements_support<kNaiveSide>, run_naive};
const CudaEntry<Params> matmul_coalesced_cuda = {elements_support<kCoalescedColumns>, run_coalesced};
const CudaEntry<Params> matmul_tiled_shared_cuda = {tiles_support<16>, run_shared, nullptr, shared_names,
                                                    shared_policy};
const CudaEntry<Params> matmul_register_tiled_cuda = {tiles_support<kRegisterSide>, run_register, nullptr,
                                                      register_names, register_policy};

}  // namespace profkit
