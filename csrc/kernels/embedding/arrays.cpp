// Which arrays embedding takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/embedding/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_embedding_params& p) {
  require_counts({{"rows", p.rows}, {"vocabulary", p.vocabulary}, {"width", p.width}});
  require_one_of("direction", p.direction, PROFKIT_FORWARD, PROFKIT_WEIGHT_GRADIENT);
  const Shape rows = {p.rows, p.width}, table = {p.vocabulary, p.width};
  const NamedShape indices = {"indices", {p.rows}, true};
  if (p.direction == PROFKIT_FORWARD) return checked({{indices, {"table", table}}, rows, p.dtype});
  return checked({{indices, {"dy", rows}}, table, p.dtype});
}

}  // namespace profkit
