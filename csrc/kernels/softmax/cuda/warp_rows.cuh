// Softmax of short rows: kWidth lanes share a row and hold all of it in registers, so that it is read once;
// maximum and sum by shuffles, no shared memory and no barrier. Bottleneck: memory, 8 bytes per element.
#pragma once

#include "kernels/cuda/reduce.cuh"

namespace profkit::cuda {

constexpr int kSoftmaxWarpThreads = 128;

// Rows have at most kWidth * kPerLane columns; element i of a lane is column i * kWidth + lane, which keeps
// neighbouring lanes on neighbouring addresses.
template <class T, int kWidth, int kPerLane>
__global__ void __launch_bounds__(kSoftmaxWarpThreads)
    softmax_warp_rows(const int rows, const int columns, const T* x, T* y) {
  constexpr int kRowsPerBlock = kSoftmaxWarpThreads / kWidth;
  const int lane = static_cast<int>(threadIdx.x) % kWidth;
  const int row = static_cast<int>(blockIdx.x) * kRowsPerBlock + static_cast<int>(threadIdx.x) / kWidth;
  const bool has_row = row < rows;  // lanes without one still take part in shuffles
  const int64_t start = static_cast<int64_t>(row) * columns;
  float values[kPerLane];
  float largest = Max::kNeutral;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int column = i * kWidth + lane;
    values[i] = has_row && column < columns ? to_float(x[start + column]) : Max::kNeutral;
    largest = Max::together(largest, values[i]);
  }
  largest = warp_reduce<Max, kWidth>(largest);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    // Behind the row's end nothing may be added, not even where the row itself is at the lowest number.
    const bool is_inside = i * kWidth + lane < columns;
    values[i] = is_inside ? expf(values[i] - largest) : 0.0f;
    sum += values[i];
  }
  const float scale = 1.0f / warp_reduce<Sum, kWidth>(sum);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int column = i * kWidth + lane;
    if (has_row && column < columns) y[start + column] = from_float<T>(values[i] * scale);
  }
}

}  // namespace profkit::cuda
