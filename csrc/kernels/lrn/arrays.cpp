// Which arrays lrn takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/lrn/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_lrn_params& p) {
  require_counts({{"batch", p.batch}, {"channels", p.channels}, {"height", p.height}, {"width", p.width}});
  require_counts({{"size", p.size}});
  require_choice("layout", p.layout, 2);
  const Shape images = image_shape(p.layout, p.batch, p.channels, p.height, p.width);
  require_choice("direction", p.direction, 2);
  if (p.direction != PROFKIT_FORWARD) return checked({{{"x", images}, {"dy", images}}, images, p.dtype});
  return checked({{{"x", images}}, images, p.dtype});
}

}  // namespace profkit
