// y = x / (k + alpha/size * sum of x^2 over `size` neighbouring channels)^beta, and the gradient of x
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_lrn(INTEGERS, NUMBERS)    \
  INTEGERS(batch, channels, height, width, size) \
  NUMBERS(alpha, beta, k)                        \
  INTEGERS(layout, dtype, direction)
PROFKIT_PARAMS(lrn)
