// y = x mask; the rate is what the mask was made with
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_dropout(INTEGERS, NUMBERS) \
  INTEGERS(count)                                 \
  NUMBERS(rate)                                   \
  INTEGERS(dtype)
PROFKIT_PARAMS(dropout)
