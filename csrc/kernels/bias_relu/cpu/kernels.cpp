// The CPU kernels of bias_relu, best known first, the reference last.
#include "kernels/bias_relu/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_bias_relu_params, bias_relu_vectorized)
ReferenceLaunch<profkit_bias_relu_params> bias_relu_reference;

const std::vector<Kernel<profkit_bias_relu_params>>& bias_relu_kernels() {
  static const auto rows = unique_rows<Kernel<profkit_bias_relu_params>>({
      cpu_row<profkit_bias_relu_params, bias_relu_vectorized>("bias_relu/native/cpu/vectorized"),
      reference_row<profkit_bias_relu_params, bias_relu_reference>("bias_relu/native/cpu/reference"),
  });
  return rows;
}

}  // namespace profkit
