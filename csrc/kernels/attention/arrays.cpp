// Which arrays attention takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/attention/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_attention_params& p) {
  require_counts({{"batch", p.batch}, {"heads", p.heads}, {"steps", p.steps}, {"width", p.width}});
  const Shape shape = {p.batch, p.steps, p.heads * p.width};
  return checked({{{"q", shape}, {"k", shape}, {"v", shape}}, shape, p.dtype});
}

}  // namespace profkit
