// y[row] = table[indices[row]], or the sums of dy by index
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_embedding(INTEGERS, NUMBERS) INTEGERS(rows, vocabulary, width, dtype, direction)
PROFKIT_PARAMS(embedding)
