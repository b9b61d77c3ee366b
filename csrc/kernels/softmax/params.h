// Softmax over the last dimension of [rows][classes]; the gradient of its cross-entropy is softmax(x) -
// labels.
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_softmax(INTEGERS, NUMBERS) \
  INTEGERS(rows, classes)                         \
  INTEGERS(dtype, direction)
PROFKIT_PARAMS(softmax)
