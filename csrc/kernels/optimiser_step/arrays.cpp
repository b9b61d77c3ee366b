// Which arrays optimiser_step takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/optimiser_step/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_optimiser_step_params& p) {
  require_counts({{"count", p.count}, {"step", p.step}});
  require_choice("optimiser", p.optimiser, 3);
  Arrays arrays{{{"w", {p.count}}, {"g", {p.count}}}, {}, p.dtype};
  if (p.optimiser == PROFKIT_ADAM) {
    arrays.inputs.push_back({"first_moment", {p.count}});
    arrays.inputs.push_back({"second_moment", {p.count}});
  } else if (p.optimiser == PROFKIT_RMSPROP) {
    arrays.inputs.push_back({"mean_square", {p.count}});
  } else if (p.momentum != 0) {
    arrays.inputs.push_back({"velocity", {p.count}});
  }
  // The new weights, and every state again.
  arrays.output = {static_cast<int64_t>(arrays.inputs.size()) - 1, p.count};
  return checked(std::move(arrays));
}

}  // namespace profkit
