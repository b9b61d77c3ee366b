// The list of native kernels: one row each, best known first, reference last. To add one: a row here, a
// declaration in <op>/kernels.h, a line in csrc/isa_units.txt.
#include "kernels/registry.h"

#include "kernels/bias_relu/kernels.h"
#include "kernels/conv2d/kernels.h"
#include "kernels/lrn/kernels.h"
#include "kernels/matmul/kernels.h"
#include "kernels/pool2d/kernels.h"
#include "kernels/softmax/kernels.h"

namespace profkit {

const std::vector<Kernel<profkit_conv2d_params>>& conv2d_kernels() {
  static const auto rows = unique_rows<profkit_conv2d_params>({
      conv2d_implicit_gemm_row(),
      conv2d_inside_taps_row(),
      conv2d_winograd_8x8_row(),
      conv2d_winograd_6x6_row(),
      conv2d_direct_row(),
      conv2d_im2col_row(),
      conv2d_im2col_batched_row(),
      {"conv2d/native/cpu/reference", supports_wide_floats, no_workspace, conv2d_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_matmul_params>>& matmul_kernels() {
  static const auto rows = unique_rows<profkit_matmul_params>({
      matmul_blocked_row(),
      {"matmul/native/cpu/reference", supports_wide_floats, no_workspace, matmul_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_pool2d_params>>& pool2d_kernels() {
  static const auto rows = unique_rows<profkit_pool2d_params>({
      pool2d_separable_row(),
      {"pool2d/native/cpu/reference", supports_wide_floats, no_workspace, pool2d_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_lrn_params>>& lrn_kernels() {
  static const auto rows = unique_rows<profkit_lrn_params>({
      lrn_windowed_row(),
      {"lrn/native/cpu/reference", supports_wide_floats, no_workspace, lrn_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_bias_relu_params>>& bias_relu_kernels() {
  static const auto rows = unique_rows<profkit_bias_relu_params>({
      bias_relu_vectorized_row(),
      {"bias_relu/native/cpu/reference", supports_wide_floats, no_workspace, bias_relu_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_softmax_params>>& softmax_kernels() {
  static const auto rows = unique_rows<profkit_softmax_params>({
      softmax_vectorized_row(),
      {"softmax/native/cpu/reference", supports_wide_floats, no_workspace, softmax_reference},
  });
  return rows;
}

}  // namespace profkit
