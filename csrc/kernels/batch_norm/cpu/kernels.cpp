// The CPU kernels of batch_norm, best known first, the reference last.
#include "kernels/batch_norm/params.h"
#include "kernels/cpu/dispatch.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_batch_norm_params, batch_norm_vectorized)
ReferenceLaunch<profkit_batch_norm_params> batch_norm_reference;

const std::vector<Kernel<profkit_batch_norm_params>>& batch_norm_kernels() {
  static const auto rows = unique_rows<Kernel<profkit_batch_norm_params>>({
      cpu_row<profkit_batch_norm_params, batch_norm_vectorized>("batch_norm/native/cpu/vectorized"),
      reference_row<profkit_batch_norm_params, batch_norm_reference>("batch_norm/native/cpu/reference"),
  });
  return rows;
}

}  // namespace profkit
