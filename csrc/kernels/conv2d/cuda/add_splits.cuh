// The end of every sum that was split between blocks: their parts added up, always in the same order.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

constexpr int kAddSplitsThreads = 256;

// target[i] = the sum over the splits of partial[split][i]. A template, because the header is in several
// sources.
template <int kUnused>
__global__ void __launch_bounds__(kAddSplitsThreads)
    conv2d_add_splits(const float* partial, float* target, int64_t count, int splits) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kAddSplitsThreads + threadIdx.x;
  if (at >= count) return;
  float sum = 0.0f;
  for (int split = 0; split < splits; ++split) sum += partial[split * count + at];
  target[at] = sum;
}

}  // namespace profkit::cuda
