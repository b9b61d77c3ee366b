#include "kernels/matmul/cuda/tensor_core.cuh"

#include "kernels/matmul/cuda/tensor_core_tf32.cuh"
#include "kernels/matmul/cuda/tile_launch.h"

namespace profkit {
namespace {

using Params = profkit_matmul_params;

constexpr int kLargeTile = 1;  // of the configurations
constexpr int kHalfPack = 8;   // 16-bit elements of an asynchronous copy

// Of the layouts the one that needs most.
constexpr size_t kLargeTileBytes = cuda::TensorCoreTiles<__half, 128, cuda::Layout::along_depth,
                                                         cuda::Layout::along_depth, true>::kSharedBytes;

std::string needs_tensor_cores(const CudaDevice& device) {
  if (device.capability >= 80) return {};
  return "it needs the tensor cores of compute capability 8.0, the device has " +
         std::to_string(device.capability / 10) + "." + std::to_string(device.capability % 10);
}

// Rows that are not aligned have the small tile only: they wait for single elements, whatever the tile.
template <class Work>
void with_aligned_layouts(const Params& params, const CudaCall& call, const Work& work) {
  call.configuration == kLargeTile ? with_layouts<128, true>(params, work)
                                   : with_layouts<64, true>(params, work);
}

template <class T>
void launch_half(const Params& params, const Buffers& buffers, const CudaCall& call) {
  using cuda::Layout;
  const MatmulOperands operands = contiguous_operands(params, buffers);
  const auto start = [&](auto instance) {
    using I = decltype(instance);
    using Tiles = cuda::TensorCoreTiles<T, I::kSide, I::kLayoutA, I::kLayoutB, I::kAligned>;
    launch_product<T, cuda::matmul_tensor_core<T, I::kSide, I::kLayoutA, I::kLayoutB, I::kAligned>>(
        {product_grid(params, I::kSide, I::kSide, params.batch), dimensions(Tiles::Warp::kThreads),
         Tiles::kSharedBytes},
        call, cuda_problem(params, operands, 2, sizeof(T)), operands);
  };
  if (has_aligned_operands(params, operands, kHalfPack, sizeof(T))) {
    return with_aligned_layouts(params, call, start);
  }
  // Its layouts are those of problem.transpose_a and transpose_b.
  start(TileInstance<64, Layout::along_depth, Layout::along_depth, false>());
}

std::vector<std::string> tile_names(const Params&, const CudaDevice&) { return {"64x64", "128x128"}; }

int tile_policy(const Params& params, const CudaDevice& device) {
  const bool has_room = device.shared_bytes_per_block >= kLargeTileBytes;
  return has_room && matmul_tile(params, device) == MatmulTile::large ? kLargeTile : 0;
}

std::string half_supports(const Params& params, const CudaDevice& device) {
  if (params.dtype != PROFKIT_FLOAT16 && params.dtype != PROFKIT_BFLOAT16) {
    return "it is written for float16 and bfloat16";
  }
  const std::string reason = needs_tensor_cores(device);
  return reason.empty() ? fits_cuda(params, 64) : reason;
}

void run_half(const Params& params, const Buffers& buffers, const CudaCall& call) {
  params.dtype == PROFKIT_FLOAT16 ? launch_half<__half>(params, buffers, call)
                                  : launch_half<__nv_bfloat16>(params, buffers, call);
}

std::string tf32_supports(const Params& params, const CudaDevice& device) {
  std::string reason = float32_only(params);
  if (reason.empty()) reason = needs_tensor_cores(device);
  return reason.empty() ? fits_cuda(params, 64) : reason;
}

void run_tf32(const Params& params, const Buffers& buffers, const CudaCall& call) {
  const MatmulOperands operands = contiguous_operands(params, buffers);
  const auto start = [&](auto instance) {
    using I = decltype(instance);
    launch_product<float, cuda::matmul_tensor_core_tf32<I::kSide, I::kLayoutA, I::kLayoutB, I::kAligned>>(
        {product_grid(params, I::kSide, I::kSide, params.batch),
         dimensions(cuda::WarpTile<I::kSide>::kThreads)},
        call, cuda_problem(params, operands, 2), operands);
  };
  has_aligned_operands(params, operands, 4, sizeof(float)) ? with_aligned_layouts(params, call, start)
                                                           : with_layouts<64, false>(params, start);
}

}  // namespace

extern const CudaEntry<Params> matmul_tensor_core_cuda, matmul_tensor_core_tf32_cuda;
const CudaEntry<Params> matmul_tensor_core_cuda = {half_supports, run_half, nullptr, tile_names, tile_policy};
const CudaEntry<Params> matmul_tensor_core_tf32_cuda = {tf32_supports, run_tf32, nullptr, tile_names,
                                                        tile_policy};

}  // namespace profkit
