// c[batch][m][n] = a * b (+ bias[n], then ReLU); a is [m][k], or [k][m] when transpose_a; b is [k][n] or
// [n][k].
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_matmul(INTEGERS, NUMBERS) \
  INTEGERS(m, n, k, batch)                       \
  INTEGERS(transpose_a, transpose_b, bias, activation, dtype)
PROFKIT_PARAMS(matmul)
