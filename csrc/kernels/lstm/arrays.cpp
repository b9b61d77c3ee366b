// Which arrays lstm takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/lstm/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_lstm_params& p) {
  require_counts({{"batch", p.batch}, {"steps", p.steps}, {"inputs", p.inputs}, {"cells", p.cells}});
  require_one_of("activation", p.activation, PROFKIT_TANH, PROFKIT_SIGMOID);
  require_one_of("recurrent_activation", p.recurrent_activation, PROFKIT_SIGMOID, PROFKIT_HARD_SIGMOID);
  require_choice("direction", p.direction, 5);
  const int64_t gates = 4 * p.cells;
  const Shape result = p.returns_sequence ? Shape{p.batch, p.steps, p.cells} : Shape{p.batch, p.cells};
  const Shape of_direction[] = {result,
                                {p.batch, p.steps, p.inputs},
                                {p.inputs + p.cells + 1, gates},
                                {2, p.batch, p.cells},
                                {p.batch, p.steps, gates}};
  Arrays arrays{{{"x", {p.batch, p.steps, p.inputs}},
                 {"w", {p.inputs, gates}},
                 {"u", {p.cells, gates}},
                 {"b", {gates}}},
                of_direction[p.direction],
                p.dtype};
  if (p.direction != PROFKIT_FORWARD) arrays.inputs.push_back({"dy", result});
  return checked(arrays);
}

}  // namespace profkit
