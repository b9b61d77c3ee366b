// Maximum or average of a window. Average divides by the number of elements inside the image (padding does
// not count). Inputs by direction: forward x; input gradient of the maximum x, dy, of the average dy. The
// gradient of a maximum goes to the first element of the window that equals it, row by row; a NaN counts as
// larger than every number. There is no weight gradient.
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_pool2d(INTEGERS, NUMBERS)   \
  INTEGERS(batch, channels, height, width)         \
  INTEGERS(kernel_h, kernel_w, stride_h, stride_w) \
  INTEGERS(mode, layout, dtype, direction)         \
  INTEGERS(pad_top, pad_bottom, pad_left, pad_right, out_h, out_w)
PROFKIT_PARAMS(pool2d)
