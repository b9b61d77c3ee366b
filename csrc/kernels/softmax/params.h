// Softmax over the last dimension of [rows][classes].
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_softmax(INTEGERS, NUMBERS) \
  INTEGERS(rows, classes)                         \
  INTEGERS(dtype)
PROFKIT_PARAMS(softmax)
