// Every operator: its arrays and its kernels, which the folder csrc/kernels/<operator> defines.
#pragma once

#include <string>
#include <vector>

#include "kernels/registry.h"
#include "kernels/shapes.h"
// Written by CMake from the names of the folders: includes their params.h, and lists them as
// PROFKIT_OPERATORS(DO) DO(bias_relu) DO(conv2d) ...; those with a cuda/rows.cpp as PROFKIT_CUDA_OPERATORS.
#include "operator_list.h"

namespace profkit {

// arrays_of: in arrays.cpp; throws when the parameters are inconsistent. <operator>_kernels: in
// cpu/kernels.cpp, best known first; a reference kernel is always the last row and qualifies for every
// float32 and float64 call.
#define PROFKIT_DECLARE(op)                              \
  Arrays arrays_of(const profkit_##op##_params& params); \
  const std::vector<Kernel<profkit_##op##_params>>& op##_kernels();
PROFKIT_OPERATORS(PROFKIT_DECLARE)
#undef PROFKIT_DECLARE

#define PROFKIT_NAME(op) #op,
constexpr const char* kOperators[] = {PROFKIT_OPERATORS(PROFKIT_NAME)};
#undef PROFKIT_NAME

// Calls action(rows of the operator); the rows' type carries the params struct.
template <class Action>
auto with_operator(const std::string& op, Action&& action) {
#define PROFKIT_TRY(name) \
  if (op == #name) return action(name##_kernels());
  PROFKIT_OPERATORS(PROFKIT_TRY)
#undef PROFKIT_TRY
  throw KernelError("unknown operator " + op + "; known: " + joined(kOperators));
}

}  // namespace profkit
