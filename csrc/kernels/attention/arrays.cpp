// Which arrays attention takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/attention/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_attention_params& p) {
  require_counts({{"batch", p.batch}, {"heads", p.heads}, {"steps", p.steps}, {"width", p.width}});
  require_choice("direction", p.direction, 2);
  const Shape shape = {p.batch, p.steps, p.heads * p.width};
  Arrays arrays{{{"q", shape}, {"k", shape}, {"v", shape}}, shape, p.dtype};
  if (p.direction == PROFKIT_INPUT_GRADIENT) {
    arrays.inputs.push_back({"dy", shape});
    arrays.output = {3, p.batch, p.steps, p.heads * p.width};
  }
  return checked(arrays);
}

}  // namespace profkit
