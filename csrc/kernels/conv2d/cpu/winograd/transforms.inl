// The three transforms of Winograd's convolution on vectors of channels: one tile, one vector of channels at
// a time. Values at the Side x Side points lie `point_stride` apart. A thread owns the tiles it transforms.
// Bottleneck: FMA and L1; a tile's values in between (Side^2 vectors) stay in L1.
#pragma once

#include "kernels/conv2d/cpu/winograd/matrices.inl"

namespace profkit {
namespace PROFKIT_ISA {

// A tile of pixels (vectors of channels) to its values at the points.
template <class T, int Side>
__attribute__((noinline)) void transform_source(const T* pixels, int64_t row_stride, int64_t column_stride,
                                                T* points, int64_t point_stride) {
  using Matrix = WinogradSource<Side>;
  Vec<T> half[Side][Side];
  for (int column = 0; column < Side; ++column) {
    Vec<T> in[Side], out[Side];
#pragma GCC unroll 8
    for (int i = 0; i < Side; ++i) in[i] = load(pixels + i * row_stride + column * column_stride);
    to_points<T, Matrix>(in, out);
#pragma GCC unroll 8
    for (int i = 0; i < Side; ++i) half[i][column] = out[i];
  }
  for (int row = 0; row < Side; ++row) {
    Vec<T> out[Side];
    to_points<T, Matrix>(half[row], out);
#pragma GCC unroll 8
    for (int i = 0; i < Side; ++i) store(points + (row * Side + i) * point_stride, out[i]);
  }
}

// Where the results of a tile go: `rows` x `columns` of them exist in the image.
template <class T>
struct WinogradTarget {
  T* data;
  int64_t row_stride, column_stride;
  int64_t rows, columns;
  Vec<T> bias;
  bool relu;
};

template <class T, int Side, int Results>
__attribute__((noinline)) void transform_target(const T* points, int64_t point_stride,
                                                const WinogradTarget<T>& target) {
  Vec<T> half[Results][Side];
  for (int column = 0; column < Side; ++column) {
    Vec<T> in[Side], out[Results];
#pragma GCC unroll 8
    for (int i = 0; i < Side; ++i) in[i] = load(points + (i * Side + column) * point_stride);
    from_points<T>(in, out);
#pragma GCC unroll 8
    for (int i = 0; i < Results; ++i) half[i][column] = out[i];
  }
  for (int64_t row = 0; row < target.rows; ++row) {
    Vec<T> out[Results];
    from_points<T>(half[row], out);
    T* to = target.data + row * target.row_stride;
#pragma GCC unroll 8
    for (int i = 0; i < Results; ++i) {
      out[i] += target.bias;
      if (target.relu) out[i] = relu<T>(out[i]);
      if (i < target.columns) store(to + i * target.column_stride, out[i]);
    }
  }
}

// Taps of a vector of filters to their values at the points.
template <class T, int Side, int Taps>
__attribute__((noinline)) void transform_filter(const T* taps, T* points, int64_t point_stride) {
  using Matrix = WinogradFilter<Side, Taps>;
  Vec<T> half[Side][Taps];
  for (int column = 0; column < Taps; ++column) {
    Vec<T> in[Taps], out[Side];
#pragma GCC unroll 8
    for (int i = 0; i < Taps; ++i) in[i] = load(taps + (i * Taps + column) * kWidth<T>);
    to_points<T, Matrix>(in, out);
#pragma GCC unroll 8
    for (int i = 0; i < Side; ++i) half[i][column] = out[i];
  }
  for (int row = 0; row < Side; ++row) {
    Vec<T> out[Side];
    to_points<T, Matrix>(half[row], out);
#pragma GCC unroll 8
    for (int i = 0; i < Side; ++i) store(points + (row * Side + i) * point_stride, out[i]);
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
