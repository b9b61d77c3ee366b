// Launchers of double_buffered and of what is made of it: batched, split_k, products for other operators.
#include "kernels/matmul/cuda/double_buffered.cuh"

#include <algorithm>

#include "kernels/matmul/cuda/batched.cuh"
#include "kernels/matmul/cuda/split_k.cuh"
#include "kernels/matmul/cuda/tile_launch.h"

namespace profkit {
namespace {

using Params = profkit_matmul_params;

constexpr int kTableThreads = 128, kSumThreads = 256;

void start(const Params& params, const MatmulOperands& operands, const cuda::BlockWork& work, MatmulTile tile,
           const CudaCall& call) {
  const bool is_aligned = has_aligned_operands(params, operands, 4, sizeof(float));
  with_tile(params, tile, is_aligned, [&](auto instance) {
    using I = decltype(instance);
    launch<cuda::matmul_double_buffered<I::kSide, I::kSide, I::kLayoutA, I::kLayoutB, I::kAligned>>(
        {product_grid(params, I::kSide, I::kSide, params.batch * work.slices),
         dimensions(I::kSide * I::kSide / 64)},
        call, cuda_problem(params, operands), work, static_cast<const float*>(operands.a),
        static_cast<const float*>(operands.b), static_cast<const float*>(operands.bias),
        static_cast<float*>(operands.c));
  });
}

// Configurations are in the order of MatmulTile.
std::vector<std::string> tile_names(const Params&, const CudaDevice&) { return {"128x128", "64x64"}; }
int tile_policy(const Params& params, const CudaDevice& device) {
  return static_cast<int>(matmul_tile(params, device));
}

void run(const Params& params, const Buffers& buffers, const CudaCall& call) {
  start(params, contiguous_operands(params, buffers), {}, static_cast<MatmulTile>(call.configuration), call);
}

std::string batched_supports(const Params& params, const CudaDevice& device) {
  if (params.batch < 2) return "it is for batches; one product has no table of pointers";
  return matmul_on_device_supports(params, device);
}

size_t batched_workspace(const Params& params, const CudaCall&) {
  return static_cast<size_t>(params.batch) * 3 * sizeof(float*);
}

void run_batched(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const MatmulOperands operands = contiguous_operands(params, buffers);
  auto** const a_of = buffers.workspace_as<const float*>();
  auto** const b_of = a_of + params.batch;
  auto** const c_of = const_cast<float**>(b_of + params.batch);
  launch<cuda::matmul_batched_pointers<float>>(linear_geometry(params.batch, kTableThreads), call,
                                               cuda_problem(params, operands), static_cast<int>(params.batch),
                                               buffers.input_as<float>(0), buffers.input_as<float>(1),
                                               buffers.output_as<float>(), a_of, b_of, c_of);
  cuda::BlockWork work;
  work.a_of = a_of;
  work.b_of = b_of;
  work.c_of = c_of;
  start(params, operands, work, static_cast<MatmulTile>(call.configuration), call);
}

constexpr int kSliceCounts[] = {2, 4, 8, 16, 32};
constexpr int kSlicePolicyTerms = 256;  // a shorter sum costs less than writing and adding its result

// The sum of k terms in the slices of the configuration: whole tiles of 8 terms each, none without terms.
cuda::BlockWork sliced(const Params& p, const CudaCall& call) {
  constexpr int64_t depth = 8;
  const int64_t slices = kSliceCounts[call.configuration];
  const int64_t terms = cuda::divide_up(cuda::divide_up(p.k, slices), depth) * depth;
  cuda::BlockWork work;
  work.slice_terms = static_cast<int>(terms);
  work.slices = static_cast<int>(cuda::divide_up(p.k, terms));
  return work;
}

std::string split_supports(const Params& params, const CudaDevice& device) {
  constexpr int64_t most = kMostBlocksYZ / 32;
  if (params.batch > most) return "batch is limited to 2047, since 32 slices of each are blocks in z";
  return matmul_on_device_supports(params, device);
}

std::vector<std::string> split_names(const Params&, const CudaDevice&) {
  std::vector<std::string> names;
  for (const int slices : kSliceCounts) names.push_back(std::to_string(slices) + "-slices");
  return names;
}

// Enough slices that every multiprocessor has two blocks, as long as each has a sum worth its result.
int split_policy(const Params& params, const CudaDevice& device) {
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

size_t split_workspace(const Params& params, const CudaCall& call) {
  const int64_t results = params.batch * sliced(params, call).slices;
  return static_cast<size_t>(results * params.m * params.n) * sizeof(float);
}

void run_split(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const cuda::BlockWork work = sliced(params, call);
  Params partial = params;
  partial.bias = 0;
  partial.activation = PROFKIT_NONE;
  const MatmulOperands operands = contiguous_operands(params, buffers);
  MatmulOperands parts = operands;
  parts.c = buffers.workspace;
  start(partial, parts, work, MatmulTile::small, call);
  const int64_t blocks = cuda::divide_up(params.m * params.n, int64_t{kSumThreads});
  launch<cuda::matmul_split_k_sum<float>>({dimensions(blocks, 1, params.batch), dimensions(kSumThreads)},
                                          call, cuda_problem(params, operands), work.slices,
                                          static_cast<const float*>(buffers.workspace),
                                          buffers.input_as<float>(2), buffers.output_as<float>());
}

}  // namespace

std::string matmul_on_device_supports(const Params& params, const CudaDevice&) {
  return fits_float32(params, 64);
}
void matmul_on_device(const Params& params, const MatmulOperands& operands, const CudaCall& call) {
  start(params, operands, {}, matmul_tile(params, call.device), call);
}

extern const CudaEntry<Params> matmul_double_buffered_cuda, matmul_batched_cuda, matmul_split_k_cuda;
const CudaEntry<Params> matmul_double_buffered_cuda = {matmul_on_device_supports, run, nullptr, tile_names,
                                                       tile_policy};
const CudaEntry<Params> matmul_batched_cuda = {batched_supports, run_batched, batched_workspace, tile_names,
                                               tile_policy};
const CudaEntry<Params> matmul_split_k_cuda = {split_supports, run_split, split_workspace, split_names,
                                               split_policy};

}  // namespace profkit
