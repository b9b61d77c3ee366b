#include "kernels/matmul/cuda/tensor_core.cuh"

#include "kernels/cuda/row_launch.h"
#include "kernels/matmul/cuda/tensor_core_tf32.cuh"
#include "kernels/matmul/cuda/tile_launch.h"

namespace profkit {
namespace {

constexpr int kHalfPack = 8;  // 16-bit elements of an asynchronous copy

// Of the layouts the one that needs most.
constexpr size_t kLargeTileBytes = cuda::TensorCoreTiles<__half, 128, cuda::Layout::along_depth,
                                                         cuda::Layout::along_depth, true>::kSharedBytes;

std::string needs_tensor_cores(const CudaDevice& device) {
  if (device.capability >= 80) return {};
  return "it needs the tensor cores of compute capability 8.0, the device has " +
         std::to_string(device.capability / 10) + "." + std::to_string(device.capability % 10);
}

// Configurations are in the order small, large. Rows that are not aligned have the small tile only: they wait
// for single elements, whatever the tile.
bool takes_large_tile(const profkit_matmul_params& params, const CudaCall& call, bool is_aligned) {
  if (!is_aligned) return false;
  return call.configuration == kByPolicy ? matmul_tensor_core_cuda_policy(params, call.device) == 1
                                         : call.configuration == 1;
}

template <class T, class Instance>
void start_half(const profkit_matmul_params& params, const MatmulOperands& operands, const CudaCall& call) {
  using I = Instance;
  using Tiles = cuda::TensorCoreTiles<T, I::kSide, I::kLayoutA, I::kLayoutB, I::kAligned>;
  launch<cuda::matmul_tensor_core<T, I::kSide, I::kLayoutA, I::kLayoutB, I::kAligned>>(
      {tile_grid(params, I::kSide, params.batch), dim3(Tiles::Warp::kThreads), Tiles::kSharedBytes}, call,
      cuda_problem(params, operands, 2, sizeof(T)), static_cast<const T*>(operands.a),
      static_cast<const T*>(operands.b), static_cast<const T*>(operands.bias), static_cast<T*>(operands.c));
}

template <class T>
void launch_half(const profkit_matmul_params& params, const Buffers& buffers, const CudaCall& call) {
  using cuda::Layout;
  const MatmulOperands operands = contiguous_operands(params, buffers);
  const bool is_aligned = has_aligned_operands(params, operands, kHalfPack, sizeof(T));
  const auto start = [&](auto instance) { start_half<T, decltype(instance)>(params, operands, call); };
  if (!is_aligned) {
    // Its layouts are those of problem.transpose_a and transpose_b.
    start(TileInstance<64, Layout::along_depth, Layout::along_depth, false>());
  } else if (takes_large_tile(params, call, is_aligned)) {
    with_layouts<128, true>(params, start);
  } else {
    with_layouts<64, true>(params, start);
  }
}

}  // namespace

std::vector<std::string> matmul_tensor_core_cuda_configurations(const profkit_matmul_params&,
                                                                const CudaDevice&) {
  return {"64x64", "128x128"};
}

int matmul_tensor_core_cuda_policy(const profkit_matmul_params& params, const CudaDevice& device) {
  return device.shared_bytes_per_block >= kLargeTileBytes && matmul_tile(params, device) == MatmulTile::large;
}

std::string matmul_tensor_core_cuda_supports(const profkit_matmul_params& params, const CudaDevice& device) {
  if (params.dtype != PROFKIT_FLOAT16 && params.dtype != PROFKIT_BFLOAT16) {
    return "it is written for float16 and bfloat16";
  }
  const std::string reason = needs_tensor_cores(device);
  return reason.empty() ? fits_cuda(params, 64) : reason;
}

void matmul_tensor_core_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                             const CudaCall& call) {
  if (params.dtype == PROFKIT_FLOAT16) return launch_half<__half>(params, buffers, call);
  launch_half<__nv_bfloat16>(params, buffers, call);
}

std::string matmul_tensor_core_tf32_cuda_supports(const profkit_matmul_params& params,
                                                  const CudaDevice& device) {
  std::string reason = float32_only(params, device);
  if (reason.empty()) reason = needs_tensor_cores(device);
  return reason.empty() ? fits_cuda(params, 64) : reason;
}

void matmul_tensor_core_tf32_cuda(const profkit_matmul_params& params, const Buffers& buffers,
                                  const CudaCall& call) {
  const MatmulOperands operands = contiguous_operands(params, buffers);
  const bool is_aligned = has_aligned_operands(params, operands, 4, sizeof(float));
  const auto start = [&](auto instance) {
    using I = decltype(instance);
    launch<cuda::matmul_tensor_core_tf32<I::kSide, I::kLayoutA, I::kLayoutB, I::kAligned>>(
        {tile_grid(params, I::kSide, params.batch), dim3(cuda::WarpTile<I::kSide>::kThreads)}, call,
        cuda_problem(params, operands, 2), static_cast<const float*>(operands.a),
        static_cast<const float*>(operands.b), static_cast<const float*>(operands.bias),
        static_cast<float*>(operands.c));
  };
  if (!is_aligned) {
    with_layouts<64, false>(params, start);
  } else if (takes_large_tile(params, call, is_aligned)) {
    with_layouts<128, true>(params, start);
  } else {
    with_layouts<64, true>(params, start);
  }
}

}  // namespace profkit
