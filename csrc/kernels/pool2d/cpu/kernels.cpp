// The CPU kernels of pool2d, best known first, the reference last.
#include "kernels/pool2d/kernels.h"

namespace profkit {

const std::vector<Kernel<profkit_pool2d_params>>& pool2d_kernels() {
  static const auto rows = unique_rows<profkit_pool2d_params>({
      pool2d_separable_row(),
      {"pool2d/native/cpu/reference", supports_wide_floats, no_workspace, pool2d_reference},
  });
  return rows;
}

}  // namespace profkit
