// From the numbers of params.h to what the CUDA matmul kernels take.
#pragma once

#include <string>

#include "kernels/cuda/registry.h"
#include "kernels/matmul/cuda/on_device.h"
#include "kernels/matmul/cuda/problem.cuh"

namespace profkit {

// Grids have at most this many blocks in y and z.
constexpr int64_t kMostBlocksYZ = 65535;

// Steps from tile to tile are 32-bit numbers: 16 rows of memory must stay below 2^32 bytes.
constexpr int64_t kLongestMatmulSide = int64_t{1} << 25;

// Blocks lie along m in x, along n (`columns_per_block` each) in y, and along the batch in z.
inline std::string fits_cuda(const profkit_matmul_params& p, int64_t columns_per_block) {
  if (p.m > kLongestMatmulSide || p.n > kLongestMatmulSide || p.k > kLongestMatmulSide) {
    return "m, n and k are limited to 2^25, not " + std::to_string(p.m) + ", " + std::to_string(p.n) + ", " +
           std::to_string(p.k);
  }
  if (p.n > columns_per_block * kMostBlocksYZ) {
    return "n is limited to " + std::to_string(columns_per_block * kMostBlocksYZ) +
           ", the blocks that a grid has in y";
  }
  if (p.batch > kMostBlocksYZ) return "batch is limited to 65535, the blocks that a grid has in z";
  return {};
}

inline std::string fits_float32(const profkit_matmul_params& p, int64_t columns_per_block) {
  const std::string reason = float32_only(p);
  return reason.empty() ? fits_cuda(p, columns_per_block) : reason;
}

// Matrices without gaps, as params.h has them.
inline MatmulOperands contiguous_operands(const profkit_matmul_params& p, const Buffers& buffers) {
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

// Whether all rows of all matrices begin at multiples of `elements`, and end there: `side` is their length.
inline bool has_aligned_rows(const void* pointer, int64_t side, int64_t row, int64_t batch_step,
                             int64_t elements, size_t element_bytes) {
  return side % elements == 0 && row % elements == 0 && batch_step % elements == 0 &&
         reinterpret_cast<uintptr_t>(pointer) % (static_cast<size_t>(elements) * element_bytes) == 0;
}

// Whether a and b can be read in packs of `elements`.
inline bool has_aligned_operands(const profkit_matmul_params& p, const MatmulOperands& o, int64_t elements,
                                 size_t element_bytes) {
  return has_aligned_rows(o.a, p.transpose_a ? p.m : p.k, o.a_row, o.a_batch_step, elements, element_bytes) &&
         has_aligned_rows(o.b, p.transpose_b ? p.k : p.n, o.b_row, o.b_batch_step, elements, element_bytes);
}

// `c_pack`: how many neighbours of c a kernel would like to store at once.
inline cuda::MatmulProblem cuda_problem(const profkit_matmul_params& p, const MatmulOperands& o,
                                        int c_pack = 4, size_t element_bytes = sizeof(float)) {
  const auto bias_of = !p.bias          ? cuda::BiasOf::nobody
                       : o.bias_of_rows ? cuda::BiasOf::rows
                                        : cuda::BiasOf::columns;
  return {static_cast<int>(p.m),
          static_cast<int>(p.n),
          static_cast<int>(p.k),
          static_cast<int>(p.transpose_a),
          static_cast<int>(p.transpose_b),
          static_cast<int>(o.a_row),
          static_cast<int>(o.b_row),
          static_cast<int>(o.c_row),
          o.a_batch_step,
          o.b_batch_step,
          o.c_batch_step,
          bias_of,
          static_cast<int>(p.activation == PROFKIT_RELU),
          static_cast<int>(has_aligned_rows(o.c, p.n, o.c_row, o.c_batch_step, c_pack, element_bytes))};
}

}  // namespace profkit
