// What the launchers of the kernels with 128x128 and 64x64 tiles share: grids, and the choice among the
// instances of a kernel.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/matmul/cuda/params.h"
#include "kernels/matmul/cuda/policy.h"
#include "kernels/matmul/cuda/tiles/operand.cuh"

namespace profkit {

template <int kSide_, cuda::Layout kLayoutA_, cuda::Layout kLayoutB_, bool kAligned_>
struct TileInstance {
  static constexpr int kSide = kSide_;
  static constexpr cuda::Layout kLayoutA = kLayoutA_, kLayoutB = kLayoutB_;
  static constexpr bool kAligned = kAligned_;
};

// Calls `work` with the TileInstance that fits.
template <int kSide, bool kAligned, class Work>
void with_layouts(const profkit_matmul_params& p, const Work& work) {
  using cuda::Layout;
  if (p.transpose_a) {
    if (p.transpose_b) return work(TileInstance<kSide, Layout::across, Layout::along_depth, kAligned>());
    return work(TileInstance<kSide, Layout::across, Layout::across, kAligned>());
  }
  if (p.transpose_b) return work(TileInstance<kSide, Layout::along_depth, Layout::along_depth, kAligned>());
  work(TileInstance<kSide, Layout::along_depth, Layout::across, kAligned>());
}

template <class Work>
void with_tile(const profkit_matmul_params& p, MatmulTile tile, bool is_aligned, const Work& work) {
  if (tile == MatmulTile::large) {
    return is_aligned ? with_layouts<128, true>(p, work) : with_layouts<128, false>(p, work);
  }
  return is_aligned ? with_layouts<64, true>(p, work) : with_layouts<64, false>(p, work);
}

// The configurations of matmul_tiles_cuda_configurations are in the order of MatmulTile.
inline MatmulTile tile_of(const profkit_matmul_params& p, const CudaCall& call) {
  if (call.configuration == kByPolicy) return matmul_tile(p, call.device);
  return call.configuration == 0 ? MatmulTile::large : MatmulTile::small;
}

inline dim3 tile_grid(const profkit_matmul_params& p, int side, int64_t blocks_along_z) {
  return dim3(static_cast<unsigned>(cuda::divide_up(p.m, int64_t{side})),
              static_cast<unsigned>(cuda::divide_up(p.n, int64_t{side})),
              static_cast<unsigned>(blocks_along_z));
}

}  // namespace profkit
