// A convolution as CUDA kernels take it: 32-bit sizes, strides of either layout, bias and ReLU at the end.
// Indices: n image, oc/ic output/input channel, c input channel inside its group, y/x output position,
// h/w input position, r/s filter row/column.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

// Steps in elements between neighbours in each dimension of a batch of images.
struct ImageSteps {
  int64_t image;
  int channel, row, column;

  __device__ __forceinline__ int64_t at(int n, int c, int h, int w) const {
    return image * n + static_cast<int64_t>(channel) * c + static_cast<int64_t>(row) * h +
           static_cast<int64_t>(column) * w;
  }
};

struct ConvProblem {
  int batch, in_channels, height, width, out_channels;
  int kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  int groups, in_per_group, out_per_group, out_h, out_w;
  int is_nhwc, has_bias, has_relu;
  ImageSteps x, y;  // of the input and of the output, whatever the direction

  __device__ __forceinline__ int64_t weight_at(int oc, int c, int r, int s) const {
    return ((static_cast<int64_t>(oc) * in_per_group + c) * kernel_h + r) * kernel_w + s;
  }
  __device__ __forceinline__ int input_row(int y_at, int r) const {
    return y_at * stride_h + r * dilation_h - pad_top;
  }
  __device__ __forceinline__ int input_column(int x_at, int s) const {
    return x_at * stride_w + s * dilation_w - pad_left;
  }
  __device__ __forceinline__ bool is_inside(int h, int w) const {
    return static_cast<unsigned>(h) < static_cast<unsigned>(height) &&
           static_cast<unsigned>(w) < static_cast<unsigned>(width);
  }
  // What is stored for a finished sum of the forward direction.
  template <class T>
  __device__ __forceinline__ float finished(float sum, const T* bias, int oc) const {
    if (has_bias) sum += to_float(bias[oc]);
    return has_relu && sum < 0.0f ? 0.0f : sum;
  }
};

}  // namespace profkit::cuda
