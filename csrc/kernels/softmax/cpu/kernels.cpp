// The CPU kernels of softmax, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/softmax/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_softmax_params, softmax_vectorized)
CpuLaunch<profkit_softmax_params> softmax_reference;

const std::vector<Kernel<profkit_softmax_params>>& softmax_kernels() {
  static const auto rows = unique_rows<Kernel<profkit_softmax_params>>({
      cpu_row<profkit_softmax_params, softmax_vectorized>("softmax/native/cpu/vectorized"),
      {"softmax/native/cpu/reference", supports_wide_floats, no_workspace, softmax_reference},
  });
  return rows;
}

}  // namespace profkit
