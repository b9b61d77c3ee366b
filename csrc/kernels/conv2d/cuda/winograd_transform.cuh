// Winograd's minimal filtering, F(4x4, 3x3) and F(2x2, 5x5): both take tiles of 6x6 and the interpolation
// points 0, 1, -1, 1/2, -2 and infinity. With these points all numbers of the source's and the target's
// transform are exact in float32 and none is above 8: errors stay a third of what the ordinary tolerance of
// float32 sums allows, where the usual points 0, 1, -1, 2, -2 take three quarters of it.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

constexpr int kWinogradSide = 6;
constexpr int kWinogradArea = kWinogradSide * kWinogradSide;

__host__ __device__ constexpr int winograd_outputs(int taps) { return kWinogradSide - taps + 1; }

// point^power; the last point is infinity, which picks the highest power alone.
__device__ constexpr float winograd_power(int point, int power, int highest) {
  // 0, 1, -1, 1/2, -2; a table, because compilers keep a loop of multiplications.
  constexpr float powers[kWinogradSide - 1][5] = {{1.0f, 0.0f, 0.0f, 0.0f, 0.0f},
                                                  {1.0f, 1.0f, 1.0f, 1.0f, 1.0f},
                                                  {1.0f, -1.0f, 1.0f, -1.0f, 1.0f},
                                                  {1.0f, 0.5f, 0.25f, 0.125f, 0.0625f},
                                                  {1.0f, -2.0f, 4.0f, -8.0f, 16.0f}};
  if (point == kWinogradSide - 1) return power == highest ? 1.0f : 0.0f;
  return powers[point][power];
}

struct WinogradSource {
  __device__ constexpr static float at(int row, int column) {
    constexpr float numbers[kWinogradSide][kWinogradSide] = {
        {1.0f, -1.5f, -2.0f, 1.5f, 1.0f, 0.0f}, {0.0f, -1.0f, 0.5f, 2.5f, 1.0f, 0.0f},
        {0.0f, 1.0f, -2.5f, 0.5f, 1.0f, 0.0f},  {0.0f, -2.0f, -1.0f, 2.0f, 1.0f, 0.0f},
        {0.0f, 0.5f, -1.0f, -0.5f, 1.0f, 0.0f}, {0.0f, 1.0f, -1.5f, -2.0f, 1.5f, 1.0f}};
    return numbers[row][column];
  }
};

template <int kTaps>
struct WinogradFilter {
  __device__ constexpr static float at(int row, int column) {
    // One over the product of the point's differences to the others.
    constexpr float scales[kWinogradSide] = {1.0f,           1.0f / 3.0f,  -1.0f / 3.0f,
                                             -16.0f / 15.0f, 1.0f / 15.0f, 1.0f};
    return scales[row] * winograd_power(row, column, kTaps - 1);
  }
};

template <int kTaps>
struct WinogradTarget {
  __device__ constexpr static float at(int row, int column) {
    return winograd_power(column, row, winograd_outputs(kTaps) - 1);
  }
};

// A row of the matrix times value_at(0 ... kIn - 1).
template <class Matrix, int kIn, class ValueAt>
__device__ __forceinline__ float winograd_row(int row, const ValueAt& value_at) {
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kIn; ++k) {
    if (Matrix::at(row, k) != 0.0f) sum += Matrix::at(row, k) * value_at(k);
  }
  return sum;
}

// matrix * tile * transposed matrix; loops are unrolled, so that the numbers are part of the instructions.
template <class Matrix, int kOut, int kIn>
__device__ __forceinline__ void winograd_transform(const float (&tile)[kIn][kIn],
                                                   float (&result)[kOut][kOut]) {
  float half[kOut][kIn];
#pragma unroll
  for (int i = 0; i < kOut; ++i) {
#pragma unroll
    for (int j = 0; j < kIn; ++j) {
      half[i][j] = winograd_row<Matrix, kIn>(i, [&](int k) { return tile[k][j]; });
    }
  }
#pragma unroll
  for (int i = 0; i < kOut; ++i) {
#pragma unroll
    for (int j = 0; j < kOut; ++j) {
      result[i][j] = winograd_row<Matrix, kIn>(j, [&](int k) { return half[i][k]; });
    }
  }
}

}  // namespace profkit::cuda
