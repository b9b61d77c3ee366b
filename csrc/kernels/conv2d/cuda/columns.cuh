// Data movement of im2col: images become a matrix of columns, whose product with the weights is the
// convolution, and columns are added up to images, for the input gradient. K counts all (channel, r, s),
// in the weights' order, so that weights need not be moved; P counts output positions:
//   NCHW  columns[image][K][P]     NHWC  columns[image][P][K]
// Bottleneck: memory; every input element is written kernel_h * kernel_w / stride^2 times.
#pragma once

#include "kernels/conv2d/cuda/image_rows.cuh"

namespace profkit::cuda {

struct ColumnsProblem {
  ConvProblem conv;
  RowBlocks blocks;    // rows are (image, k) in NCHW and (image, position) in NHWC
  FastDivide by_rows;  // of one image
  FastDivide by_taps, by_kernel_w, by_out_w;
};

// One thread per element of the matrix: adjacent lanes write adjacent elements.
template <class T>
__global__ void __launch_bounds__(RowBlocks::kThreads)
    conv2d_image_to_columns(const ColumnsProblem problem, const T* x, T* columns) {
  if (!problem.blocks.is_inside()) return;
  const ConvProblem& conv = problem.conv;
  const int at = problem.blocks.at(), row = problem.blocks.row();
  int row_in_image, tap, s, x_at;
  const int n = problem.by_rows.split(row, row_in_image);
  const int k = conv.is_nhwc ? at : row_in_image, position = conv.is_nhwc ? row_in_image : at;
  const int channel = problem.by_taps.split(k, tap);
  const int r = problem.by_kernel_w.split(tap, s);
  const int y_at = problem.by_out_w.split(position, x_at);
  const int h = conv.input_row(y_at, r), w = conv.input_column(x_at, s);
  columns[static_cast<int64_t>(row) * problem.blocks.extent + at] =
      conv.is_inside(h, w) ? x[conv.x.at(n, channel, h, w)] : from_float<T>(0.0f);
}

// One thread per element of the image, which gathers the taps that it went into: no atomics, and equal inputs
// give equal results.
template <class T>
__global__ void __launch_bounds__(RowBlocks::kThreads)
    conv2d_columns_to_image(const ImageRows problem, const T* columns, T* dx) {
  if (!problem.blocks.is_inside()) return;
  const ConvProblem& conv = problem.conv;
  const ImagePlace place(problem);
  const int64_t positions = static_cast<int64_t>(conv.out_h) * conv.out_w;
  const int64_t terms = static_cast<int64_t>(conv.in_channels) * conv.kernel_h * conv.kernel_w;
  const int64_t k_step = conv.is_nhwc ? 1 : positions, position_step = conv.is_nhwc ? terms : 1;
  columns += place.n * positions * terms;
  float sum = 0.0f;
  for (int r = 0; r < conv.kernel_h; ++r) {
    int y_at;
    if (!output_of(place.row + conv.pad_top - r * conv.dilation_h, conv.stride_h, conv.out_h, y_at)) continue;
    for (int s = 0; s < conv.kernel_w; ++s) {
      int x_at;
      if (!output_of(place.column + conv.pad_left - s * conv.dilation_w, conv.stride_w, conv.out_w, x_at)) {
        continue;
      }
      const int64_t k = (static_cast<int64_t>(place.channel) * conv.kernel_h + r) * conv.kernel_w + s;
      const int64_t position = static_cast<int64_t>(y_at) * conv.out_w + x_at;
      sum += to_float(columns[k * k_step + position * position_step]);
    }
  }
  dx[conv.x.at(place.n, place.channel, place.row, place.column)] = from_float<T>(sum);
}

// The images' parts of the weight gradient, added in their order to what `dw` holds.
template <class T>
__global__ void __launch_bounds__(RowBlocks::kThreads)
    conv2d_add_parts(const int64_t weights, const int images, const bool is_first, const T* parts, T* dw) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * RowBlocks::kThreads + threadIdx.x;
  if (at >= weights) return;
  float sum = is_first ? 0.0f : to_float(dw[at]);
  for (int n = 0; n < images; ++n) sum += to_float(parts[n * weights + at]);
  dw[at] = from_float<T>(sum);
}

}  // namespace profkit::cuda
