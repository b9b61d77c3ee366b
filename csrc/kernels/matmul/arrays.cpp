// Which arrays matmul takes and gives. Kernels may rely on everything that is checked here.
#include <utility>

#include "kernels/matmul/params.h"
#include "kernels/shapes.h"

namespace profkit {

Arrays arrays_of(const profkit_matmul_params& p) {
  require_counts({{"batch", p.batch}, {"m", p.m}, {"n", p.n}, {"k", p.k}});
  require_choice("transpose_a", p.transpose_a, 2);
  require_choice("transpose_b", p.transpose_b, 2);
  require_choice("bias", p.bias, 2);
  require_choice("activation", p.activation, 2);

  // A batch of one is a plain matrix: [m, k], not [1, m, k].
  const auto stacked = [&](int64_t rows, int64_t columns) {
    return p.batch == 1 ? Shape{rows, columns} : Shape{p.batch, rows, columns};
  };
  Arrays arrays;
  arrays.inputs.push_back({"a", p.transpose_a != 0 ? stacked(p.k, p.m) : stacked(p.m, p.k)});
  arrays.inputs.push_back({"b", p.transpose_b != 0 ? stacked(p.n, p.k) : stacked(p.k, p.n)});
  if (p.bias != 0) arrays.inputs.push_back({"bias", {p.n}});
  arrays.output = stacked(p.m, p.n);
  arrays.dtype = p.dtype;
  return checked(std::move(arrays));
}

}  // namespace profkit
