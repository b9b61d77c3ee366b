#include "kernels/matmul/cuda/vectorized.cuh"

#include "kernels/matmul/cuda/tile_launch.h"

namespace profkit {
namespace {

using Params = profkit_matmul_params;

constexpr int kSide = 128;

std::string supports(const Params& params, const CudaDevice&) { return fits_float32(params, kSide); }

void run(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const MatmulOperands operands = contiguous_operands(params, buffers);
  const auto start = [&](auto instance) {
    using I = decltype(instance);
    launch_product<float, cuda::matmul_vectorized<kSide, kSide, I::kLayoutA, I::kLayoutB, I::kAligned>>(
        {product_grid(params, kSide, kSide, params.batch), dimensions(kSide * kSide / 64)}, call,
        cuda_problem(params, operands), operands);
  };
  has_aligned_operands(params, operands, 4, sizeof(float)) ? with_layouts<kSide, true>(params, start)
                                                           : with_layouts<kSide, false>(params, start);
}

}  // namespace

extern const CudaEntry<Params> matmul_vectorized_cuda;
const CudaEntry<Params> matmul_vectorized_cuda = {supports, run};

}  // namespace profkit
