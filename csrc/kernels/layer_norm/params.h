// y = scale (x - mean) / sqrt(variance + epsilon) + shift per row, and its gradients
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_layer_norm(INTEGERS, NUMBERS) \
  INTEGERS(rows, width)                              \
  NUMBERS(epsilon)                                   \
  INTEGERS(dtype, direction)
PROFKIT_PARAMS(layer_norm)
