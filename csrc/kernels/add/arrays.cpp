// Which arrays add takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/add/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_add_params& p) {
  require_counts({{"count", p.count}});
  return checked({{{"a", {p.count}}, {"b", {p.count}}}, {p.count}, p.dtype});
}

}  // namespace profkit
