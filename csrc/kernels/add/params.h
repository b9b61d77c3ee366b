// c = a + b
#pragma once

#include "kernels/params.h"

#define PROFKIT_FIELDS_add(INTEGERS, NUMBERS) INTEGERS(count, dtype)
PROFKIT_PARAMS(add)
