// y = scale (x - mean) / sqrt(variance + epsilon) + shift per channel, and its gradients
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_batch_norm(INTEGERS, NUMBERS) \
  INTEGERS(batch, channels, height, width, mode)     \
  NUMBERS(epsilon)                                   \
  INTEGERS(layout, dtype, direction)
PROFKIT_PARAMS(batch_norm)
