// Which arrays batch_norm takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/batch_norm/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_batch_norm_params& p) {
  require_counts({{"batch", p.batch}, {"channels", p.channels}, {"height", p.height}, {"width", p.width}});
  require_choice("layout", p.layout, 2);
  require_choice("direction", p.direction, 3);
  // Gradients are those of training.
  require_choice("mode", p.mode, p.direction == PROFKIT_FORWARD ? 2 : 1);
  const Shape images = image_shape(p.layout, p.batch, p.channels, p.height, p.width), each = {p.channels};
  if (p.direction == PROFKIT_INPUT_GRADIENT) {
    return checked({{{"x", images}, {"scale", each}, {"dy", images}}, images, p.dtype});
  }
  if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
    return checked({{{"x", images}, {"dy", images}}, {2, p.channels}, p.dtype});
  }
  Arrays arrays{{{"x", images}, {"scale", each}, {"shift", each}}, images, p.dtype};
  if (p.mode == PROFKIT_INFERENCE) {
    arrays.inputs.push_back({"mean", each});
    arrays.inputs.push_back({"variance", each});
  }
  return checked(std::move(arrays));
}

}  // namespace profkit
