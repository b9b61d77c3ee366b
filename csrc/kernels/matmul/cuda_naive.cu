#include "kernels/matmul/cuda_naive.cuh"

#include "kernels/cuda/launch.cuh"
#include "kernels/matmul/cuda_kernels.h"
#include "kernels/matmul/cuda_params.h"

namespace profkit {

std::string matmul_naive_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device) {
  if (params.n > 16 * kMostBlocksYZ) return "n is limited to 1048560, the blocks that a grid has in y";
  const std::string reason = float32_only(params, device);
  return reason.empty() ? fits_cuda(params) : reason;
}

void matmul_naive_cuda(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call) {
  const cuda::MatmulProblem problem = cuda_problem(params);
  const dim3 block(16, 16);
  const dim3 grid(static_cast<unsigned>(cuda::divide_up(problem.m, 16)),
                  static_cast<unsigned>(cuda::divide_up(problem.n, 16)), static_cast<unsigned>(params.batch));
  launch<cuda::matmul_naive<float>>(
      {grid, block}, call, problem, static_cast<const float*>(buffers.inputs[0]),
      static_cast<const float*>(buffers.inputs[1]), static_cast<const float*>(buffers.inputs[2]),
      static_cast<float*>(buffers.output));
}

}  // namespace profkit
