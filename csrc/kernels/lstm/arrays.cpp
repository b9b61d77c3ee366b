// Which arrays lstm takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/lstm/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_lstm_params& p) {
  require_counts({{"batch", p.batch}, {"steps", p.steps}, {"inputs", p.inputs}, {"cells", p.cells}});
  require_one_of("activation", p.activation, PROFKIT_TANH, PROFKIT_SIGMOID);
  require_one_of("recurrent_activation", p.recurrent_activation, PROFKIT_SIGMOID, PROFKIT_HARD_SIGMOID);
  const int64_t gates = 4 * p.cells;
  const Shape result = p.returns_sequence ? Shape{p.batch, p.steps, p.cells} : Shape{p.batch, p.cells};
  return checked({{{"x", {p.batch, p.steps, p.inputs}},
                   {"w", {p.inputs, gates}},
                   {"u", {p.cells, gates}},
                   {"b", {gates}}},
                  result,
                  p.dtype});
}

}  // namespace profkit
