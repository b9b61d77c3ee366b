// y = function(x), or function'(x) dy
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_activation(INTEGERS, NUMBERS) INTEGERS(count, function, dtype, direction)
PROFKIT_PARAMS(activation)
