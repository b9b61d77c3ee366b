// The CPU kernels of attention, best known first, the reference last.
#include "kernels/attention/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_attention_params, attention_by_head)
ReferenceLaunch<profkit_attention_params> attention_reference;

const std::vector<Kernel<profkit_attention_params>>& attention_kernels() {
  static const auto rows = unique_rows<Kernel<profkit_attention_params>>({
      cpu_row<profkit_attention_params, attention_by_head>("attention/native/cpu/by_head"),
      reference_row<profkit_attention_params, attention_reference>("attention/native/cpu/reference"),
  });
  return rows;
}

}  // namespace profkit
