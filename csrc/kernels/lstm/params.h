// z = x w + h u + b; gates i, f, c, o side by side
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_lstm(INTEGERS, NUMBERS)                 \
  INTEGERS(batch, steps, inputs, cells)                        \
  INTEGERS(activation, recurrent_activation, returns_sequence) \
  INTEGERS(dtype)
PROFKIT_PARAMS(lstm)
