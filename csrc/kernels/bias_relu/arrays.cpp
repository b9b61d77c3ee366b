// Which arrays bias_relu takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/bias_relu/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_bias_relu_params& p) {
  require_counts({{"batch", p.batch}, {"channels", p.channels}, {"height", p.height}, {"width", p.width}});
  require_choice("layout", p.layout, 2);
  const Shape images = image_shape(p.layout, p.batch, p.channels, p.height, p.width);
  return checked({{{"x", images}, {"b", {p.channels}}}, images, p.dtype});
}

}  // namespace profkit
