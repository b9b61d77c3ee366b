// Convolution and its gradients. Inputs by direction: forward x, w, [b]; input gradient dy, w; weight
// gradient x, dy.
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_conv2d(INTEGERS, NUMBERS)                                   \
  INTEGERS(batch, in_channels, height, width, out_channels)                        \
  INTEGERS(kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, groups) \
  INTEGERS(bias, activation, layout, dtype, direction)                             \
  INTEGERS(pad_top, pad_bottom, pad_left, pad_right, out_h, out_w)
PROFKIT_PARAMS(conv2d)
