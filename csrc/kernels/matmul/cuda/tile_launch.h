// What launchers share: grids, and the choice among the instances of kernels with 128x128 and 64x64 tiles.
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

// Blocks of `rows` x `columns` elements of c.
inline dim3 product_grid(const profkit_matmul_params& p, int64_t rows, int64_t columns, int64_t along_z) {
  return dimensions(cuda::divide_up(p.m, rows), cuda::divide_up(p.n, columns), along_z);
}

template <class T, auto kernel>
void launch_product(const Geometry& geometry, const CudaCall& call, const cuda::MatmulProblem& problem,
                    const MatmulOperands& o) {
  launch<kernel>(geometry, call, problem, static_cast<const T*>(o.a), static_cast<const T*>(o.b),
                 static_cast<const T*>(o.bias), static_cast<T*>(o.c));
}

}  // namespace profkit
