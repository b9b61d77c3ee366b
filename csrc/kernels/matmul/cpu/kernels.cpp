// The CPU kernels of matmul, best known first, the reference last.
#include "kernels/matmul/kernels.h"

namespace profkit {

const std::vector<Kernel<profkit_matmul_params>>& matmul_kernels() {
  static const auto rows = unique_rows<profkit_matmul_params>({
      matmul_blocked_row(),
      {"matmul/native/cpu/reference", supports_wide_floats, no_workspace, matmul_reference},
  });
  return rows;
}

}  // namespace profkit
