// Which arrays softmax takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/shapes.h"
#include "kernels/softmax/params.h"

namespace profkit {

Arrays arrays_of(const profkit_softmax_params& p) {
  require_counts({{"rows", p.rows}, {"classes", p.classes}});
  require_choice("direction", p.direction, 2);
  const Shape rows = {p.rows, p.classes};
  if (p.direction != PROFKIT_FORWARD) return checked({{{"x", rows}, {"labels", rows}}, rows, p.dtype});
  return checked({{{"x", rows}}, rows, p.dtype});
}

}  // namespace profkit
