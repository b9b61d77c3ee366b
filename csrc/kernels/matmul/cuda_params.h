// From the numbers of params.h to what the CUDA matmul kernels take.
#pragma once

#include <limits>
#include <string>

#include "kernels/cuda_registry.h"
#include "kernels/matmul/cuda_problem.cuh"

namespace profkit {

// Grids have at most this many blocks in y and z.
constexpr int64_t kMostBlocksYZ = 65535;

inline std::string fits_cuda(const profkit_matmul_params& p) {
  constexpr int64_t most = std::numeric_limits<int>::max();
  if (p.m > most / 2 || p.n > most / 2 || p.k > most / 2) return "m, n and k must be below 2^30";
  if (p.batch > kMostBlocksYZ) return "batch is limited to 65535, the blocks that a grid has in z";
  return {};
}

inline cuda::MatmulProblem cuda_problem(const profkit_matmul_params& p) {
  return {static_cast<int>(p.m),
          static_cast<int>(p.n),
          static_cast<int>(p.k),
          static_cast<int>(p.transpose_a),
          static_cast<int>(p.transpose_b),
          static_cast<int>(p.bias),
          static_cast<int>(p.activation == PROFKIT_RELU),
          p.m * p.k,
          p.k * p.n,
          p.m * p.n};
}

}  // namespace profkit
