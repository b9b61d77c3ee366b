// What the LRN kernels share: the problem, and the power of the energy.
#pragma once

#include "kernels/cuda/row_blocks.cuh"

namespace profkit::cuda {

// Powers that need no powf, which is as slow as the rest of the kernel.
enum class LrnPower { half, three_quarters, one, any };

struct LrnProblem {
  RowBlocks blocks;
  int channels, positions;     // positions of one image
  int before, after;           // channels of the window before and after the own one
  int channel_step;            // distance of neighbouring channels, in elements
  int channel_by_row;          // NCHW: row r is channel r % channels; NHWC: a row holds all channels
  float scale, k, minus_beta;  // scale = alpha / size
  LrnPower power;

  // What the element is multiplied with: (k + scale * energy)^-beta.
  __device__ __forceinline__ float factor(float energy) const {
    const float base = k + scale * energy;
    if (power == LrnPower::any) return powf(base, minus_beta);
    if (power == LrnPower::one) return 1.0f / base;
    const float root = rsqrtf(base);
    return power == LrnPower::half ? root : root * sqrtf(root);
  }
};

}  // namespace profkit::cuda
