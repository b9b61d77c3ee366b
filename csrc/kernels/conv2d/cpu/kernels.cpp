// The CPU kernels of conv2d, best known first, the reference last.
#include "kernels/conv2d/kernels.h"

namespace profkit {

const std::vector<Kernel<profkit_conv2d_params>>& conv2d_kernels() {
  static const auto rows = unique_rows<profkit_conv2d_params>({
      conv2d_implicit_gemm_row(),
      conv2d_skip_padding_row(),
      conv2d_winograd_8x8_row(),
      conv2d_winograd_6x6_row(),
      conv2d_direct_row(),
      conv2d_im2col_row(),
      conv2d_im2col_batched_row(),
      {"conv2d/native/cpu/reference", supports_wide_floats, no_workspace, conv2d_reference},
  });
  return rows;
}

}  // namespace profkit
