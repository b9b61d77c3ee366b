// Which arrays layer_norm takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/layer_norm/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_layer_norm_params& p) {
  require_counts({{"rows", p.rows}, {"width", p.width}});
  require_choice("direction", p.direction, 3);
  const Shape rows = {p.rows, p.width}, each = {p.width};
  if (p.direction == PROFKIT_INPUT_GRADIENT) {
    return checked({{{"x", rows}, {"scale", each}, {"dy", rows}}, rows, p.dtype});
  }
  if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
    return checked({{{"x", rows}, {"dy", rows}}, {2, p.width}, p.dtype});
  }
  return checked({{{"x", rows}, {"scale", each}, {"shift", each}}, rows, p.dtype});
}

}  // namespace profkit
