// The CPU kernels of softmax, best known first, the reference last.
#include "kernels/softmax/kernels.h"

namespace profkit {

const std::vector<Kernel<profkit_softmax_params>>& softmax_kernels() {
  static const auto rows = unique_rows<profkit_softmax_params>({
      softmax_vectorized_row(),
      {"softmax/native/cpu/reference", supports_wide_floats, no_workspace, softmax_reference},
  });
  return rows;
}

}  // namespace profkit
