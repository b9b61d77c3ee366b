// The CPU kernels of bias_relu, best known first, the reference last.
#include "kernels/bias_relu/kernels.h"

namespace profkit {

const std::vector<Kernel<profkit_bias_relu_params>>& bias_relu_kernels() {
  static const auto rows = unique_rows<profkit_bias_relu_params>({
      bias_relu_vectorized_row(),
      {"bias_relu/native/cpu/reference", supports_wide_floats, no_workspace, bias_relu_reference},
  });
  return rows;
}

}  // namespace profkit
