// LRN, one thread per element, which adds up the squares of its window; the window's elements are also those
// of neighbouring threads or rows and come from the caches. Any size, either layout. Bottleneck: `size` loads
// per element from L1 in NHWC, from L2 where planes are large in NCHW.
#pragma once

#include "kernels/lrn/cuda/energy.cuh"

namespace profkit::cuda {

template <class T>
__global__ void __launch_bounds__(RowBlocks::kThreads)
    lrn_direct(const LrnProblem problem, const T* x, T* y) {
  if (!problem.blocks.is_inside()) return;
  const int row = problem.blocks.row(), at = problem.blocks.at();
  const int channel = problem.channel_by_row ? row % problem.channels : at;
  const int64_t place = static_cast<int64_t>(row) * problem.blocks.extent + at;
  const int first = max(-problem.before, -channel);
  const int last = min(problem.after, problem.channels - 1 - channel);
  const T* neighbour = x + place + static_cast<int64_t>(first) * problem.channel_step;
  float energy = 0.0f;
  for (int i = first; i <= last; ++i) {
    const float value = to_float(*neighbour);
    energy += value * value;
    neighbour += problem.channel_step;
  }
  y[place] = from_float<T>(to_float(x[place]) * problem.factor(energy));
}

}  // namespace profkit::cuda
