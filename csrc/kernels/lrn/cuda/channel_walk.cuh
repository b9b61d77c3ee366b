// LRN in NCHW, window of kSize channels: a thread stays at its position and walks over kLrnSegment channels
// with the window in registers, so that each element is loaded once per segment (and the window's reach at
// its ends). The window is summed again for every channel: a running sum would keep the rounding errors of
// large values that have left it. Bottleneck: memory, 8 bytes per element and the reach.
#pragma once

#include "kernels/lrn/cuda/energy.cuh"

namespace profkit::cuda {

constexpr int kLrnSegment = 16;

// Row r of the blocks is segment r of all images' segments; its elements are positions.
template <class T, int kSize>
__global__ void __launch_bounds__(RowBlocks::kThreads)
    lrn_channel_walk(const LrnProblem problem, const T* x, T* y) {
  if (!problem.blocks.is_inside()) return;
  constexpr int kBefore = kSize / 2, kAfter = (kSize - 1) / 2;
  const int segments = divide_up(problem.channels, kLrnSegment);
  const int image = problem.blocks.row() / segments;
  const int start = problem.blocks.row() % segments * kLrnSegment;
  const int64_t plane = problem.positions;
  const int64_t place =
      (static_cast<int64_t>(image) * problem.channels + start) * plane + problem.blocks.at();
  x += place;
  y += place;
  const auto value_at = [&](int i) {  // of channel start + i; zero outside the image
    const int channel = start + i;
    return channel >= 0 && channel < problem.channels ? to_float(x[i * plane]) : 0.0f;
  };
  float window[kSize];  // before step i: channels i - kBefore ... i + kAfter - 1, then a free place
#pragma unroll
  for (int i = 0; i < kSize - 1; ++i) window[i] = value_at(i - kBefore);
#pragma unroll
  for (int i = 0; i < kLrnSegment; ++i) {
    window[kSize - 1] = value_at(i + kAfter);
    float energy = 0.0f;
#pragma unroll
    for (int j = 0; j < kSize; ++j) energy += window[j] * window[j];
    if (start + i < problem.channels) y[i * plane] = from_float<T>(window[kBefore] * problem.factor(energy));
#pragma unroll
    for (int j = 0; j < kSize - 1; ++j) window[j] = window[j + 1];
  }
}

}  // namespace profkit::cuda
