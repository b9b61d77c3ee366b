// Functions of every element, and their gradients: plain loops in double. Bottleneck: the functions of libm.
#include <algorithm>
#include <cmath>

#include "kernels/activation/params.h"
#include "kernels/cpu/loops.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

using Params = profkit_activation_params;

double value(int64_t function, double x) {
  switch (function) {
    case PROFKIT_TANH:
      return std::tanh(x);
    case PROFKIT_SCALED_TANH:
      return 1.7159 * std::tanh(x * 2 / 3);
    case PROFKIT_SIGMOID:
      return 1 / (1 + std::exp(-x));
    case PROFKIT_HARD_SIGMOID:
      return std::min(1.0, std::max(0.0, 0.2 * x + 0.5));
    case PROFKIT_GELU:
      return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    default:
      return x < 0 ? 0 : x;  // NaN propagates
  }
}

double slope(int64_t function, double x) {
  const double y = value(function, x);
  switch (function) {
    case PROFKIT_TANH:
      return 1 - y * y;
    case PROFKIT_SCALED_TANH:
      return 2.0 / 3 * (1.7159 - y * y / 1.7159);
    case PROFKIT_SIGMOID:
      return y * (1 - y);
    case PROFKIT_HARD_SIGMOID:
      return std::abs(x) < 2.5 ? 0.2 : 0;
    case PROFKIT_GELU:
      return 0.5 * std::erfc(-x * std::sqrt(0.5)) +
             x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
    default:
      return x > 0 ? 1 : 0;
  }
}

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  const T* x = buffers.input_as<T>(0);
  const T* dy = buffers.input_as<T>(1);
  T* output = buffers.output_as<T>();
  parallel_each(threads, p.count, [&](int64_t i) {
    const double at = static_cast<double>(x[i]);
    output[i] =
        static_cast<T>(p.direction == PROFKIT_FORWARD ? value(p.function, at)
                                                      : slope(p.function, at) * static_cast<double>(dy[i]));
  });
}

}  // namespace

PROFKIT_REFERENCE(activation)

}  // namespace profkit
