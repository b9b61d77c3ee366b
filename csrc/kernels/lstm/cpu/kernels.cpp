// The CPU kernels of lstm, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/lstm/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_lstm_params, lstm_steps)
ReferenceLaunch<profkit_lstm_params> lstm_reference;
size_t lstm_reference_bytes(const profkit_lstm_params& params, int threads);

namespace {
// The reference keeps the state of a sequence.
Kernel<profkit_lstm_params> row_of_reference() {
  Kernel<profkit_lstm_params> row =
      reference_row<profkit_lstm_params, lstm_reference>("lstm/native/cpu/reference");
  row.workspace_bytes = [](const profkit_lstm_params& params, int threads, const CpuBlocks&) {
    return lstm_reference_bytes(params, threads);
  };
  return row;
}
}  // namespace

const std::vector<Kernel<profkit_lstm_params>>& lstm_kernels() {
  static const auto rows = unique_rows<Kernel<profkit_lstm_params>>({
      cpu_row<profkit_lstm_params, lstm_steps>("lstm/native/cpu/steps"),
      row_of_reference(),
  });
  return rows;
}

}  // namespace profkit
