// The CPU kernels of dropout, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/dropout/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_dropout_params, dropout_vectorized)
ReferenceLaunch<profkit_dropout_params> dropout_reference;

const std::vector<Kernel<profkit_dropout_params>>& dropout_kernels() {
  static const auto rows = unique_rows<Kernel<profkit_dropout_params>>({
      cpu_row<profkit_dropout_params, dropout_vectorized>("dropout/native/cpu/vectorized"),
      reference_row<profkit_dropout_params, dropout_reference>("dropout/native/cpu/reference"),
  });
  return rows;
}

}  // namespace profkit
