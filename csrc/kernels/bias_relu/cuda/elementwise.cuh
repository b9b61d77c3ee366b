// Bias per channel, then ReLU: one thread per pack of kPack neighbouring elements. Images are rows: planes of
// positions in NCHW, which share one bias, or positions of channels in NHWC, which walk along the bias.
// Bottleneck: memory, 8 bytes per element.
#pragma once

#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/row_blocks.cuh"

namespace profkit::cuda {

struct BiasReluProblem {
  RowBlocks packs;  // extent in packs
  int channels;
  int bias_by_row;  // NCHW: row r has the bias of channel r % channels
};

template <class T, int kPack>
__global__ void __launch_bounds__(RowBlocks::kThreads)
    bias_relu_elementwise(const BiasReluProblem problem, const T* x, const T* bias, T* y) {
  if (!problem.packs.is_inside()) return;
  const int row = problem.packs.row(), first = problem.packs.at() * kPack;
  const int64_t place = static_cast<int64_t>(row) * problem.packs.extent * kPack + first;
  const Pack<T, kPack> in = load_pack<kPack>(x + place);
  Pack<T, kPack> added;
  if (problem.bias_by_row) {
    const T shared_bias = bias[row % problem.channels];
#pragma unroll
    for (int i = 0; i < kPack; ++i) added.values[i] = shared_bias;
  } else {
    added = load_pack<kPack>(bias + first);
  }
  Pack<T, kPack> out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const float value = to_float(in.values[i]) + to_float(added.values[i]);
    out.values[i] = from_float<T>(value < 0.0f ? 0.0f : value);  // NaN propagates
  }
  store_pack(y + place, out);
}

}  // namespace profkit::cuda
