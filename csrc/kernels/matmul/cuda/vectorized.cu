#include "kernels/matmul/cuda/vectorized.cuh"

#include "kernels/matmul/cuda/tile_launch.h"

namespace profkit {
namespace {

constexpr int kSide = 128;

}  // namespace

std::string matmul_vectorized_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device) {
  const std::string reason = float32_only(params, device);
  return reason.empty() ? fits_cuda(params, kSide) : reason;
}

void matmul_vectorized_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                            const CudaCall& call) {
  const MatmulOperands operands = contiguous_operands(params, buffers);
  const bool is_aligned = has_aligned_operands(params, operands, 4, sizeof(float));
  const auto start = [&](auto instance) {
    using I = decltype(instance);
    launch<cuda::matmul_vectorized<I::kSide, I::kSide, I::kLayoutA, I::kLayoutB, I::kAligned>>(
        {tile_grid(params, I::kSide, params.batch), dim3(I::kSide * I::kSide / 64)}, call,
        cuda_problem(params, operands), static_cast<const float*>(operands.a),
        static_cast<const float*>(operands.b), static_cast<const float*>(operands.bias),
        static_cast<float*>(operands.c));
  };
  is_aligned ? with_layouts<kSide, true>(params, start) : with_layouts<kSide, false>(params, start);
}

}  // namespace profkit
