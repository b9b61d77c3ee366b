// The numbers of every operator, as plain C structs: what kernels, the Python binding and users' own
// C or C++ candidates share. All counts are in elements; weights are [out_channels][in_channels/groups]
// [kernel_h][kernel_w] whatever the layout of the images.
#ifndef PROFKIT_PARAMS_H
#define PROFKIT_PARAMS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The 16-bit types are stored so; kernels sum their products in float32 and round once, at the end.
enum profkit_dtype { PROFKIT_FLOAT32 = 0, PROFKIT_FLOAT64 = 1, PROFKIT_FLOAT16 = 2, PROFKIT_BFLOAT16 = 3 };
enum profkit_layout { PROFKIT_NCHW = 0, PROFKIT_NHWC = 1 };
enum profkit_direction { PROFKIT_FORWARD = 0, PROFKIT_INPUT_GRADIENT = 1, PROFKIT_WEIGHT_GRADIENT = 2 };
enum profkit_activation { PROFKIT_NONE = 0, PROFKIT_RELU = 1 };
enum profkit_pool_mode { PROFKIT_MAX = 0, PROFKIT_AVERAGE = 1 };

// Inputs by direction: forward x, w, [b]; input gradient dy, w; weight gradient x, dy.
typedef struct profkit_conv2d_params {
  int64_t batch, in_channels, height, width, out_channels;
  int64_t kernel_h, kernel_w, stride_h, stride_w;
  int64_t pad_top, pad_bottom, pad_left, pad_right;
  int64_t dilation_h, dilation_w, groups;
  int64_t out_h, out_w;
  int64_t bias, activation, layout, dtype, direction;
} profkit_conv2d_params;

// c[batch][m][n] = a * b (+ bias[n], then ReLU); a is [m][k], or [k][m] when transpose_a; b is [k][n] or
// [n][k].
typedef struct profkit_matmul_params {
  int64_t batch, m, n, k;
  int64_t transpose_a, transpose_b, bias, dtype;
  int64_t activation;
} profkit_matmul_params;

// Average divides by the number of elements inside the image (padding does not count). Inputs by direction:
// forward x; input gradient of the maximum x, dy, of the average dy. The gradient of a maximum goes to the
// first element of the window that equals it, row by row; a NaN counts as larger than every number. There is
// no weight gradient.
typedef struct profkit_pool2d_params {
  int64_t batch, channels, height, width;
  int64_t kernel_h, kernel_w, stride_h, stride_w;
  int64_t pad_top, pad_bottom, pad_left, pad_right;
  int64_t out_h, out_w;
  int64_t mode, layout, dtype;
  int64_t direction;
} profkit_pool2d_params;

// y = x / (k + alpha/size * sum of x^2 over `size` neighbouring channels)^beta
typedef struct profkit_lrn_params {
  int64_t batch, channels, height, width, size;
  int64_t layout, dtype;
  double alpha, beta, k;
} profkit_lrn_params;

// y = max(0, x + b[channel])
typedef struct profkit_bias_relu_params {
  int64_t batch, channels, height, width;
  int64_t layout, dtype;
} profkit_bias_relu_params;

// Over the last dimension of [rows][columns].
typedef struct profkit_softmax_params {
  int64_t rows, columns;
  int64_t dtype;
} profkit_softmax_params;

#ifdef __cplusplus
}
#endif
#endif
