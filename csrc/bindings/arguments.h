// Python's dict of parameters -> the operator's C struct.
#pragma once

#include <pybind11/pybind11.h>

#include "kernels/params.h"

namespace profkit {

// Every field of the struct must be in the dict, and nothing else; KernelError says which is not.
template <class Params>
Params read_params(const pybind11::dict& values);

// The thread count, refused when it is below one or beyond reason.
int checked_threads(int64_t threads);

}  // namespace profkit
