// y = max(0, x + b[channel]); gradients, from y and dy: dy where y > 0, and its sums by channel
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_bias_relu(INTEGERS, NUMBERS) \
  INTEGERS(batch, channels, height, width)          \
  INTEGERS(layout, dtype, direction)
PROFKIT_PARAMS(bias_relu)
