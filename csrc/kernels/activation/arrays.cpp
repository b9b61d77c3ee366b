// Which arrays activation takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/activation/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_activation_params& p) {
  require_counts({{"count", p.count}, {"function", p.function}});
  require_choice("function", p.function, 7);
  require_choice("direction", p.direction, 2);
  Arrays arrays{{{"x", {p.count}}}, {p.count}, p.dtype};
  if (p.direction != PROFKIT_FORWARD) arrays.inputs.push_back({"dy", {p.count}});
  return checked(std::move(arrays));
}

}  // namespace profkit
