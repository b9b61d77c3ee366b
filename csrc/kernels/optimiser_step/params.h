// New weights and states of an optimiser: [1 + states][count]
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_optimiser_step(INTEGERS, NUMBERS)       \
  INTEGERS(count, optimiser, nesterov)                         \
  NUMBERS(learning_rate, momentum, rho, beta1, beta2, epsilon) \
  INTEGERS(step)                                               \
  NUMBERS(weight_decay)                                        \
  INTEGERS(dtype)                                              \
  NUMBERS(adam_rate, adam_root)
PROFKIT_PARAMS(optimiser_step)
