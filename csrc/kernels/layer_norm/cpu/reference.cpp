// Layer normalisation and its gradients: plain loops, moments in double. Bottleneck: memory, rows being read
// several times; the gradient of the parameters strides over the rows.
#include <cmath>

#include "kernels/layer_norm/params.h"
#include "kernels/registry.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

using Params = profkit_layer_norm_params;

struct Moments {
  double mean = 0, inverse = 0;
};

template <class T>
Moments moments_of(const Params& p, const T* x) {
  Moments moments;
  for (int64_t i = 0; i < p.width; ++i) moments.mean += static_cast<double>(x[i]);
  moments.mean /= static_cast<double>(p.width);
  double squares = 0;
  for (int64_t i = 0; i < p.width; ++i) {
    const double off = static_cast<double>(x[i]) - moments.mean;
    squares += off * off;
  }
  moments.inverse = 1 / std::sqrt(squares / static_cast<double>(p.width) + p.epsilon);
  return moments;
}

template <class T>
void run_row(const Params& p, const Buffers& buffers, int64_t row) {
  const T* x = buffers.input_as<T>(0) + row * p.width;
  const T* scale = buffers.input_as<T>(1);
  T* output = buffers.output_as<T>() + row * p.width;
  const Moments moments = moments_of(p, x);
  const auto normal = [&](int64_t i) { return (static_cast<double>(x[i]) - moments.mean) * moments.inverse; };
  if (p.direction == PROFKIT_FORWARD) {
    const T* shift = buffers.input_as<T>(2);
    for (int64_t i = 0; i < p.width; ++i) {
      output[i] = static_cast<T>(normal(i) * static_cast<double>(scale[i]) + static_cast<double>(shift[i]));
    }
    return;
  }
  const T* dy = buffers.input_as<T>(2) + row * p.width;
  const auto scaled = [&](int64_t i) { return static_cast<double>(dy[i]) * static_cast<double>(scale[i]); };
  double mean = 0, along = 0;
  for (int64_t i = 0; i < p.width; ++i) {
    mean += scaled(i);
    along += scaled(i) * normal(i);
  }
  mean /= static_cast<double>(p.width);
  along /= static_cast<double>(p.width);
  for (int64_t i = 0; i < p.width; ++i) {
    output[i] = static_cast<T>((scaled(i) - mean - normal(i) * along) * moments.inverse);
  }
}

template <class T>
void by_parameters(const Params& p, const Buffers& buffers, Range columns) {
  T* by_scale = buffers.output_as<T>();
  T* by_shift = by_scale + p.width;
  for (int64_t i = columns.begin; i < columns.end; ++i) by_scale[i] = by_shift[i] = 0;
  for (int64_t row = 0; row < p.rows; ++row) {
    const T* x = buffers.input_as<T>(0) + row * p.width;
    const T* dy = buffers.input_as<T>(1) + row * p.width;
    const Moments moments = moments_of(p, x);
    for (int64_t i = columns.begin; i < columns.end; ++i) {
      const double normal = (static_cast<double>(x[i]) - moments.mean) * moments.inverse;
      by_scale[i] += static_cast<T>(static_cast<double>(dy[i]) * normal);
      by_shift[i] += dy[i];
    }
  }
}

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  parallel(threads, [&](int thread) {
    if (p.direction == PROFKIT_WEIGHT_GRADIENT)
      return by_parameters<T>(p, buffers, split(p.width, threads, thread));
    const Range own = split(p.rows, threads, thread);
    for (int64_t row = own.begin; row < own.end; ++row) run_row<T>(p, buffers, row);
  });
}

}  // namespace

PROFKIT_REFERENCE(layer_norm)

}  // namespace profkit
