// The list of native kernels: one row each, best known first, reference last. To add one: a row here, a
// declaration in <op>/kernels.h, a line in CMakeLists.txt.
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
      {"conv2d/native/cpu/implicit_gemm", supports_wide_floats, conv2d_implicit_gemm_workspace_bytes,
       conv2d_implicit_gemm, conv2d_implicit_gemm_tuning()},
      {"conv2d/native/cpu/direct", conv2d_direct_supports, conv2d_direct_workspace_bytes, conv2d_direct,
       conv2d_direct_tuning()},
      {"conv2d/native/cpu/im2col", supports_wide_floats, conv2d_im2col_workspace_bytes, conv2d_im2col,
       conv2d_im2col_tuning()},
      {"conv2d/native/cpu/im2col_batched", supports_wide_floats, conv2d_im2col_batched_workspace_bytes,
       conv2d_im2col_batched, conv2d_im2col_batched_tuning()},
      {"conv2d/native/cpu/reference", supports_wide_floats, no_workspace, conv2d_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_matmul_params>>& matmul_kernels() {
  static const auto rows = unique_rows<profkit_matmul_params>({
      {"matmul/native/cpu/blocked", supports_wide_floats, matmul_blocked_workspace_bytes, matmul_blocked,
       matmul_blocked_tuning()},
      {"matmul/native/cpu/reference", supports_wide_floats, no_workspace, matmul_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_pool2d_params>>& pool2d_kernels() {
  static const auto rows = unique_rows<profkit_pool2d_params>({
      {"pool2d/native/cpu/separable", pool2d_separable_supports, pool2d_separable_workspace_bytes,
       pool2d_separable},
      {"pool2d/native/cpu/reference", supports_wide_floats, no_workspace, pool2d_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_lrn_params>>& lrn_kernels() {
  static const auto rows = unique_rows<profkit_lrn_params>({
      {"lrn/native/cpu/windowed", lrn_windowed_supports, lrn_windowed_workspace_bytes, lrn_windowed},
      {"lrn/native/cpu/reference", supports_wide_floats, no_workspace, lrn_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_bias_relu_params>>& bias_relu_kernels() {
  static const auto rows = unique_rows<profkit_bias_relu_params>({
      {"bias_relu/native/cpu/reference", supports_wide_floats, no_workspace, bias_relu_reference},
  });
  return rows;
}

const std::vector<Kernel<profkit_softmax_params>>& softmax_kernels() {
  static const auto rows = unique_rows<profkit_softmax_params>({
      {"softmax/native/cpu/reference", supports_wide_floats, no_workspace, softmax_reference},
  });
  return rows;
}

}  // namespace profkit
