// The CPU kernels of matmul, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/matmul/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_matmul_params, matmul_blocked)
ReferenceLaunch<profkit_matmul_params> matmul_reference;

const std::vector<Kernel<profkit_matmul_params>>& matmul_kernels() {
  static const auto rows = unique_rows<Kernel<profkit_matmul_params>>({
      cpu_row<profkit_matmul_params, matmul_blocked>("matmul/native/cpu/blocked"),
      reference_row<profkit_matmul_params, matmul_reference>("matmul/native/cpu/reference"),
  });
  return rows;
}

}  // namespace profkit
