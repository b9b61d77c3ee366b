// The CPU kernels of activation, best known first, the reference last.
#include "kernels/activation/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_activation_params, activation_vectorized)

namespace {
std::string vectorized_supports(const profkit_activation_params& params) {
  if (params.function == PROFKIT_GELU && params.dtype == PROFKIT_FLOAT64) {
    return "vectorized has an error function for float32 only";
  }
  return supports_wide_floats(params);
}
}  // namespace

PROFKIT_CPU_ROWS(activation, cpu_row<profkit_activation_params, activation_vectorized, vectorized_supports>(
                                 "activation/native/cpu/vectorized"))

}  // namespace profkit
