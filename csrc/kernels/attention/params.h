// y = softmax(q k^T / sqrt(width)) v per head, and its gradients; arrays are [batch][steps][heads * width]
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_attention(INTEGERS, NUMBERS) \
  INTEGERS(batch, heads, steps, width, causal, dtype, direction)
PROFKIT_PARAMS(attention)
