// Which arrays dropout takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/dropout/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_dropout_params& p) {
  require_counts({{"count", p.count}});
  return checked({{{"x", {p.count}}, {"mask", {p.count}}}, {p.count}, p.dtype});
}

}  // namespace profkit
