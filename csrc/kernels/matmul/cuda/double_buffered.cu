// Launchers of double_buffered and of what is made of it: batched, split_k, products for other operators.
#include "kernels/matmul/cuda/double_buffered.cuh"

#include <algorithm>

#include "kernels/matmul/cuda/batched.cuh"
#include "kernels/matmul/cuda/split_k.cuh"
#include "kernels/matmul/cuda/tile_launch.h"

namespace profkit {
namespace {

constexpr int kTableThreads = 128, kSumThreads = 256;

void start(const profkit_matmul_params& params, const MatmulOperands& operands, const cuda::BlockWork& work,
           MatmulTile tile, const CudaCall& call) {
  const bool is_aligned = has_aligned_operands(params, operands, 4, sizeof(float));
  with_tile(params, tile, is_aligned, [&](auto instance) {
    using I = decltype(instance);
    launch<cuda::matmul_double_buffered<I::kSide, I::kSide, I::kLayoutA, I::kLayoutB, I::kAligned>>(
        {tile_grid(params, I::kSide, params.batch * work.slices), dim3(I::kSide * I::kSide / 64)}, call,
        cuda_problem(params, operands), work, static_cast<const float*>(operands.a),
        static_cast<const float*>(operands.b), static_cast<const float*>(operands.bias),
        static_cast<float*>(operands.c));
  });
}

}  // namespace

std::vector<std::string> matmul_tiles_cuda_configurations(const profkit_matmul_params&, const CudaDevice&) {
  return {"128x128", "64x64"};
}

int matmul_tiles_cuda_policy(const profkit_matmul_params& params, const CudaDevice& device) {
  return matmul_tile(params, device) == MatmulTile::large ? 0 : 1;
}

std::string matmul_double_buffered_cuda_supports(const profkit_matmul_params& params,
                                                 const CudaDevice& device) {
  const std::string reason = float32_only(params, device);
  return reason.empty() ? fits_cuda(params, 64) : reason;
}

void matmul_double_buffered_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                                 const CudaCall& call) {
  start(params, contiguous_operands(params, buffers), {}, tile_of(params, call), call);
}

std::string matmul_on_device_supports(const profkit_matmul_params& params, const CudaDevice& device) {
  return matmul_double_buffered_cuda_supports(params, device);
}

void matmul_on_device(const profkit_matmul_params& params, const MatmulOperands& operands,
                      const CudaCall& call) {
  start(params, operands, {}, matmul_tile(params, call.device), call);
}

std::string matmul_batched_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device) {
  if (params.batch < 2) return "it is for batches; one product has no table of pointers";
  return matmul_double_buffered_cuda_supports(params, device);
}

size_t matmul_batched_cuda_workspace(const profkit_matmul_params& params, const CudaCall&) {
  return static_cast<size_t>(params.batch) * 3 * sizeof(float*);
}

void matmul_batched_cuda(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call) {
  const MatmulOperands operands = contiguous_operands(params, buffers);
  auto** const a_of = static_cast<const float**>(buffers.workspace);
  auto** const b_of = a_of + params.batch;
  auto** const c_of = const_cast<float**>(b_of + params.batch);
  launch<cuda::matmul_batched_pointers<float>>(
      linear_geometry(params.batch, kTableThreads), call, cuda_problem(params, operands),
      static_cast<int>(params.batch), static_cast<const float*>(operands.a),
      static_cast<const float*>(operands.b), static_cast<float*>(operands.c), a_of, b_of, c_of);
  cuda::BlockWork work;
  work.a_of = a_of;
  work.b_of = b_of;
  work.c_of = c_of;
  start(params, operands, work, tile_of(params, call), call);
}

namespace {

constexpr int kSliceCounts[] = {2, 4, 8, 16, 32};
constexpr int kSlicePolicyTerms = 256;  // a shorter sum costs less than writing and adding its result

// How a sum of k terms is split when `slices` are wanted: whole tiles of 8 terms each, none without terms.
cuda::BlockWork sliced(const profkit_matmul_params& p, int slices) {
  constexpr int64_t depth = 8;
  const int64_t terms = cuda::divide_up(cuda::divide_up(p.k, int64_t{slices}), depth) * depth;
  cuda::BlockWork work;
  work.slice_terms = static_cast<int>(terms);
  work.slices = static_cast<int>(cuda::divide_up(p.k, terms));
  return work;
}

cuda::BlockWork sliced_by(const profkit_matmul_params& p, const CudaCall& call) {
  const int index =
      call.configuration == kByPolicy ? matmul_split_k_cuda_policy(p, call.device) : call.configuration;
  return sliced(p, kSliceCounts[index]);
}

}  // namespace

std::string matmul_split_k_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device) {
  constexpr int64_t most = kMostBlocksYZ / 32;
  if (params.batch > most) return "batch is limited to 2047, since 32 slices of each are blocks in z";
  return matmul_double_buffered_cuda_supports(params, device);
}

std::vector<std::string> matmul_split_k_cuda_configurations(const profkit_matmul_params&, const CudaDevice&) {
  std::vector<std::string> names;
  for (const int slices : kSliceCounts) names.push_back(std::to_string(slices) + "-slices");
  return names;
}

// Enough slices that every multiprocessor has two blocks, as long as each has a sum worth its result.
int matmul_split_k_cuda_policy(const profkit_matmul_params& params, const CudaDevice& device) {
  const int64_t blocks =
      cuda::divide_up(params.m, int64_t{64}) * cuda::divide_up(params.n, int64_t{64}) * params.batch;
  int index = 0;
  while (index + 1 < static_cast<int>(std::size(kSliceCounts)) &&
         blocks * kSliceCounts[index] < 2 * device.multiprocessors &&
         params.k >= int64_t{kSlicePolicyTerms} * kSliceCounts[index + 1]) {
    ++index;
  }
  return index;
}

size_t matmul_split_k_cuda_workspace(const profkit_matmul_params& params, const CudaCall& call) {
  const int64_t results = params.batch * sliced_by(params, call).slices;
  return static_cast<size_t>(results * params.m * params.n) * sizeof(float);
}

void matmul_split_k_cuda(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call) {
  const cuda::BlockWork work = sliced_by(params, call);
  profkit_matmul_params partial = params;
  partial.bias = 0;
  partial.activation = PROFKIT_NONE;
  MatmulOperands operands = contiguous_operands(params, buffers);
  operands.c = buffers.workspace;
  start(partial, operands, work, MatmulTile::small, call);
  const int64_t blocks = cuda::divide_up(params.m * params.n, int64_t{kSumThreads});
  launch<cuda::matmul_split_k_sum<float>>(
      {dim3(static_cast<unsigned>(blocks), 1, static_cast<unsigned>(params.batch)), dim3(kSumThreads)}, call,
      cuda_problem(params, contiguous_operands(params, buffers)), work.slices,
      static_cast<const float*>(buffers.workspace), static_cast<const float*>(buffers.inputs[2]),
      static_cast<float*>(buffers.output));
}

}  // namespace profkit
