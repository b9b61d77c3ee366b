// Convolution by its definition: every direction, layout, stride, dilation and group; the bottom of the
// ladder. Results of an image (forward, input gradient): one thread each, which loops over the channels and
// taps; adjacent lanes access adjacent memory. Bottleneck: two loads per multiply-add, mostly from L1. Weight
// gradient: one warp per weight, its lanes on neighbouring positions of dy, since weights alone are too few
// to fill a device and their sums are long.
#pragma once

#include "kernels/conv2d/cuda/image_rows.cuh"
#include "kernels/cuda/reduce.cuh"

namespace profkit::cuda {

constexpr int kDirectWarps = RowBlocks::kThreads / kWarpSize;

template <class T>
__global__ void __launch_bounds__(RowBlocks::kThreads)
    conv2d_direct_forward(const ImageRows problem, const T* x, const T* weights, const T* bias, T* y) {
  if (!problem.blocks.is_inside()) return;
  const ConvProblem& conv = problem.conv;
  const ImagePlace place(problem);
  const int first_channel = place.channel / conv.out_per_group * conv.in_per_group;
  const T* weight = weights + conv.weight_at(place.channel, 0, 0, 0);
  float sum = 0.0f;
  for (int c = 0; c < conv.in_per_group; ++c) {
    const T* plane = x + conv.x.at(place.n, first_channel + c, 0, 0);
    for (int r = 0; r < conv.kernel_h; ++r) {
      const int h = conv.input_row(place.row, r);
      for (int s = 0; s < conv.kernel_w; ++s, ++weight) {
        const int w = conv.input_column(place.column, s);
        if (conv.is_inside(h, w)) {
          sum += to_float(
                     plane[static_cast<int64_t>(h) * conv.x.row + static_cast<int64_t>(w) * conv.x.column]) *
                 to_float(*weight);
        }
      }
    }
  }
  y[conv.y.at(place.n, place.channel, place.row, place.column)] =
      from_float<T>(conv.finished(sum, bias, place.channel));
}

template <class T>
__global__ void __launch_bounds__(RowBlocks::kThreads)
    conv2d_direct_input_gradient(const ImageRows problem, const T* dy, const T* weights, T* dx) {
  if (!problem.blocks.is_inside()) return;
  const ConvProblem& conv = problem.conv;
  const ImagePlace place(problem);
  const int group = place.channel / conv.in_per_group, c = place.channel - group * conv.in_per_group;
  const int first_result = group * conv.out_per_group;
  float sum = 0.0f;
  for (int r = 0; r < conv.kernel_h; ++r) {
    int y_at;
    if (!output_of(place.row + conv.pad_top - r * conv.dilation_h, conv.stride_h, conv.out_h, y_at)) continue;
    for (int s = 0; s < conv.kernel_w; ++s) {
      int x_at;
      if (!output_of(place.column + conv.pad_left - s * conv.dilation_w, conv.stride_w, conv.out_w, x_at)) {
        continue;
      }
      for (int o = 0; o < conv.out_per_group; ++o) {
        const int oc = first_result + o;
        sum +=
            to_float(dy[conv.y.at(place.n, oc, y_at, x_at)]) * to_float(weights[conv.weight_at(oc, c, r, s)]);
      }
    }
  }
  dx[conv.x.at(place.n, place.channel, place.row, place.column)] = from_float<T>(sum);
}

// problem.by_positions and by_width divide positions of the output; blocks.rows counts weights, blocks.extent
// the terms of each sum.
template <class T>
__global__ void __launch_bounds__(RowBlocks::kThreads)
    conv2d_direct_weight_gradient(const ImageRows problem, const T* x, const T* dy, T* dw) {
  const ConvProblem& conv = problem.conv;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int weight = static_cast<int>(blockIdx.x) * kDirectWarps + static_cast<int>(threadIdx.x) / kWarpSize;
  if (weight >= problem.blocks.rows) return;  // the same for all lanes of a warp
  const int s = weight % conv.kernel_w, r = weight / conv.kernel_w % conv.kernel_h;
  const int channels = weight / (conv.kernel_w * conv.kernel_h);
  const int c = channels % conv.in_per_group, oc = channels / conv.in_per_group;
  const int ic = oc / conv.out_per_group * conv.in_per_group + c;
  float sum = 0.0f;
  for (int64_t term = lane; term < problem.blocks.extent; term += kWarpSize) {
    int position, x_at;
    const int n = problem.by_positions.split(static_cast<int>(term), position);
    const int y_at = problem.by_width.split(position, x_at);
    const int h = conv.input_row(y_at, r), w = conv.input_column(x_at, s);
    if (conv.is_inside(h, w))
      sum += to_float(x[conv.x.at(n, ic, h, w)]) * to_float(dy[conv.y.at(n, oc, y_at, x_at)]);
  }
  sum = warp_reduce<Sum>(sum);
  if (lane == 0) dw[weight] = from_float<T>(sum);
}

}  // namespace profkit::cuda
