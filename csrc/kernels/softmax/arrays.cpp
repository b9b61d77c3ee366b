// Which arrays softmax takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/shapes.h"
#include "kernels/softmax/params.h"

namespace profkit {

Arrays arrays_of(const profkit_softmax_params& p) {
  require_counts({{"rows", p.rows}, {"classes", p.classes}});
  return checked({{{"x", {p.rows, p.classes}}}, {p.rows, p.classes}, p.dtype});
}

}  // namespace profkit
