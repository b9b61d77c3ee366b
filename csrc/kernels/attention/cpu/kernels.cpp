// The CPU kernels of attention, best known first, the reference last.
#include "kernels/attention/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_attention_params, attention_by_head)
PROFKIT_CPU_ENTRY(profkit_attention_params, attention_head_gradients)
ReferenceLaunch<profkit_attention_params> attention_reference;
size_t attention_reference_bytes(const profkit_attention_params& params, int threads);

namespace {
std::string by_head_supports(const profkit_attention_params& params) {
  if (params.direction != PROFKIT_FORWARD) return "by_head makes the result: use head_gradients";
  return supports_wide_floats(params);
}
std::string head_gradients_supports(const profkit_attention_params& params) {
  if (params.direction == PROFKIT_FORWARD) return "head_gradients makes gradients: use by_head";
  return supports_wide_floats(params);
}

// The reference keeps the sums of a head, for gradients.
Kernel<profkit_attention_params> row_of_attention_reference() {
  Kernel<profkit_attention_params> row =
      reference_row<profkit_attention_params, attention_reference>("attention/native/cpu/reference");
  row.workspace_bytes = [](const profkit_attention_params& params, int threads, const CpuBlocks&) {
    return attention_reference_bytes(params, threads);
  };
  return row;
}
}  // namespace

const std::vector<Kernel<profkit_attention_params>>& attention_kernels() {
  static const auto rows = unique_rows<Kernel<profkit_attention_params>>({
      cpu_row<profkit_attention_params, attention_by_head, by_head_supports>("attention/native/cpu/by_head"),
      cpu_row<profkit_attention_params, attention_head_gradients, head_gradients_supports>(
          "attention/native/cpu/head_gradients"),
      row_of_attention_reference(),
  });
  return rows;
}

}  // namespace profkit
