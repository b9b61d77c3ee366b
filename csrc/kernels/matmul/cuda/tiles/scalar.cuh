// A tile of one operand, element by element into shared memory as [depth][across], zero where the operand
// ends: across counts rows of a or columns of b, depth counts terms of the sum. Neighbouring threads read
// neighbouring addresses whatever the transposition.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

// One word more than a row: threads that store down a column meet different banks.
template <int kAcross, int kDepth>
struct ScalarTile {
  static constexpr int kPitch = kAcross + 1;
  static constexpr int kWords = kDepth * kPitch;

  // `from` is the element (0, 0) of the tile; `along_depth`: terms are neighbours in memory.
  template <int kThreads>
  __device__ __forceinline__ static void fill(float* tile, const float* from, int row_length,
                                              bool along_depth, int across_left, int depth_left) {
    static_assert(kAcross * kDepth % kThreads == 0);
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kAcross * kDepth / kThreads; ++i) {
      const int at = thread + i * kThreads;
      const int across = along_depth ? at / kDepth : at % kAcross;
      const int depth = along_depth ? at % kDepth : at / kAcross;
      const int64_t row = along_depth ? across : depth;
      const bool is_inside = across < across_left && depth < depth_left;
      tile[depth * kPitch + across] =
          is_inside ? from[row * row_length + (along_depth ? depth : across)] : 0.0f;
    }
  }
};

}  // namespace profkit::cuda
