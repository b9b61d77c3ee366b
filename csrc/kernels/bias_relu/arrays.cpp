// Which arrays bias_relu takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/bias_relu/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_bias_relu_params& p) {
  require_counts({{"batch", p.batch}, {"channels", p.channels}, {"height", p.height}, {"width", p.width}});
  require_choice("layout", p.layout, 2);
  const Shape images = image_shape(p.layout, p.batch, p.channels, p.height, p.width);
  require_choice("direction", p.direction, 3);
  if (p.direction == PROFKIT_FORWARD) return checked({{{"x", images}, {"b", {p.channels}}}, images, p.dtype});
  const Shape result = p.direction == PROFKIT_INPUT_GRADIENT ? images : Shape{p.channels};
  return checked({{{"y", images}, {"dy", images}}, result, p.dtype});
}

}  // namespace profkit
