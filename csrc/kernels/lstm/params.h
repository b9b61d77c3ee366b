// z = x w + h u + b; gates i, f, c, o side by side; and its gradients through time
#pragma once

#include "kernels/params.h"

// Of the field direction, beside those of all operators: the gradients of the state before the first step,
// and of z.
enum profkit_lstm_direction { PROFKIT_STATE_GRADIENT = 3, PROFKIT_GATE_GRADIENT = 4 };

#define PROFKIT_FIELDS_lstm(INTEGERS, NUMBERS)                 \
  INTEGERS(batch, steps, inputs, cells)                        \
  INTEGERS(activation, recurrent_activation, returns_sequence) \
  INTEGERS(dtype, direction)
PROFKIT_PARAMS(lstm)
