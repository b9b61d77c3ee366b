// y = max(0, x + b[channel])
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_bias_relu(INTEGERS, NUMBERS) \
  INTEGERS(batch, channels, height, width)          \
  INTEGERS(layout, dtype)
PROFKIT_PARAMS(bias_relu)
