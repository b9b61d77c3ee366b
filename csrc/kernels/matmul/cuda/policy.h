// Which tile a product gets, by a table per architecture. The numbers are estimated, not measured: they are
// the tuner's starting point.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/registry.h"
#include "kernels/matmul/params.h"

namespace profkit {

enum class MatmulTile { large, small };  // 128x128 or 64x64 elements of c per block

// A large tile reads half as much per multiply-add, a small one gives a small product to more
// multiprocessors. From `least_share` percent of busy multiprocessors on the large one is taken: earlier
// where multiply-adds are many and the cache behind them is narrow.
struct MatmulTilePolicy {
  int capability;  // from this one on
  int64_t least_share;
};
constexpr MatmulTilePolicy kMatmulTilePolicies[] = {{120, 60}, {90, 75}, {86, 60}, {80, 75}, {0, 75}};

inline MatmulTile matmul_tile(const profkit_matmul_params& p, const CudaDevice& device) {
  // At least half of every large tile would lie outside such a matrix, however many there are.
  if (p.m <= 64 || p.n <= 64) return MatmulTile::small;
  const int64_t blocks = cuda::divide_up(p.m, int64_t{128}) * cuda::divide_up(p.n, int64_t{128}) * p.batch;
  for (const MatmulTilePolicy& policy : kMatmulTilePolicies) {
    if (device.capability >= policy.capability) {
      const bool is_large = blocks * 100 >= policy.least_share * device.multiprocessors;
      return is_large ? MatmulTile::large : MatmulTile::small;
    }
  }
  return MatmulTile::large;
}

}  // namespace profkit
