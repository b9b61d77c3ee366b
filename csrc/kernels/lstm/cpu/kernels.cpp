// The CPU kernels of lstm, best known first, the reference last.
#include "kernels/cpu/dispatch.h"
#include "kernels/lstm/params.h"

namespace profkit {

PROFKIT_CPU_ENTRY(profkit_lstm_params, lstm_steps)
PROFKIT_CPU_ENTRY(profkit_lstm_params, lstm_through_time)
ReferenceLaunch<profkit_lstm_params> lstm_reference;
size_t lstm_reference_bytes(const profkit_lstm_params& params, int threads);

namespace {
std::string steps_supports(const profkit_lstm_params& params) {
  if (params.direction != PROFKIT_FORWARD) return "steps keeps nothing for a gradient: use through_time";
  return supports_wide_floats(params);
}
std::string through_time_supports(const profkit_lstm_params& params) {
  if (params.direction == PROFKIT_FORWARD) return "through_time makes gradients: use steps";
  return supports_wide_floats(params);
}

// The reference keeps the state of a sequence, for a gradient that of every step.
Kernel<profkit_lstm_params> row_of_lstm_reference() {
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
      cpu_row<profkit_lstm_params, lstm_steps, steps_supports>("lstm/native/cpu/steps"),
      cpu_row<profkit_lstm_params, lstm_through_time, through_time_supports>("lstm/native/cpu/through_time"),
      row_of_lstm_reference(),
  });
  return rows;
}

}  // namespace profkit
