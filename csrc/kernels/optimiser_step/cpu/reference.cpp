// A step of an optimiser, weight by weight in double. Bottleneck: memory, and the root.
#include <cmath>

#include "kernels/cpu/loops.h"
#include "kernels/optimiser_step/params.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

using Params = profkit_optimiser_step_params;

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  T* output = buffers.output_as<T>();
  parallel_each(threads, p.count, [&](int64_t i) {
    const auto input = [&](int index) { return static_cast<double>(buffers.input_as<T>(index)[i]); };
    const auto give = [&](int64_t row, double value) { output[row * p.count + i] = static_cast<T>(value); };
    const double w = input(0), g = input(1) + p.weight_decay * w;
    if (p.optimiser == PROFKIT_ADAM) {
      const double m = p.beta1 * input(2) + (1 - p.beta1) * g, v = p.beta2 * input(3) + (1 - p.beta2) * g * g;
      give(0, w - p.adam_rate * m / (std::sqrt(v) * p.adam_root + p.epsilon));
      give(1, m);
      give(2, v);
    } else if (p.optimiser == PROFKIT_RMSPROP) {
      const double square = p.rho * input(2) + (1 - p.rho) * g * g;
      give(0, w - p.learning_rate * g / (std::sqrt(square) + p.epsilon));
      give(1, square);
    } else if (p.momentum == 0) {
      give(0, w - p.learning_rate * g);
    } else {
      const double velocity = p.momentum * input(2) + g;
      give(0, w - p.learning_rate * (p.nesterov ? g + p.momentum * velocity : velocity));
      give(1, velocity);
    }
  });
}

}  // namespace

PROFKIT_REFERENCE(optimiser_step)

}  // namespace profkit
