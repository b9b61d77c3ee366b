// Python's dict of parameters -> the operator's C struct.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

namespace profkit {

struct ParamsField {
  std::string name;
  bool is_real;  // a double, otherwise an int64_t
};

// The fields of the struct, in order, as <operator>/params.h lists them.
template <class Params>
const std::vector<ParamsField>& params_fields();

// Every field of the struct must be in the dict, and nothing else; KernelError says which is not.
template <class Params>
Params read_params(const pybind11::dict& values);

// The thread count, refused when it is below one or beyond reason.
int checked_threads(int64_t threads);

}  // namespace profkit
