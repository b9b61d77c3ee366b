// The CPU kernels of lrn, best known first, the reference last.
#include "kernels/lrn/kernels.h"

namespace profkit {

const std::vector<Kernel<profkit_lrn_params>>& lrn_kernels() {
  static const auto rows = unique_rows<profkit_lrn_params>({
      lrn_windowed_row(),
      {"lrn/native/cpu/reference", supports_wide_floats, no_workspace, lrn_reference},
  });
  return rows;
}

}  // namespace profkit
