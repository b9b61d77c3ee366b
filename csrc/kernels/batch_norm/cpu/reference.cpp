// Batch normalisation and its gradients: plain loops in double, a channel at a time. Bottleneck: memory, read
// several times; in NHWC the channels make it stride.
#include <cmath>

#include "kernels/batch_norm/params.h"
#include "kernels/cpu/image_index.h"
#include "kernels/registry.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

using Params = profkit_batch_norm_params;

struct Sums {
  double mean = 0, variance = 0, dy = 0, along = 0;  // along: of dy (x - mean)
};

// Calls action(position) for all elements of a channel.
template <class Action>
void each_element(const Params& p, int64_t c, const Action& action) {
  const ImageIndex index(p.layout, p.channels, p.height, p.width);
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t h = 0; h < p.height; ++h) {
      for (int64_t w = 0; w < p.width; ++w) action(index.at(n, c, h, w));
    }
  }
}

template <class T>
Sums sums_of(const Params& p, int64_t c, const T* x, const T* dy) {
  const double count = static_cast<double>(p.batch * p.height * p.width);
  Sums sums;
  each_element(p, c, [&](int64_t at) { sums.mean += static_cast<double>(x[at]); });
  sums.mean /= count;
  each_element(p, c, [&](int64_t at) {
    const double centred = static_cast<double>(x[at]) - sums.mean;
    sums.variance += centred * centred;
    if (dy == nullptr) return;
    sums.dy += static_cast<double>(dy[at]);
    sums.along += static_cast<double>(dy[at]) * centred;
  });
  sums.variance /= count;
  return sums;
}

template <class T>
void run_channel(const Params& p, const Buffers& buffers, int64_t c) {
  const T* x = buffers.input_as<T>(0);
  T* output = buffers.output_as<T>();
  const auto weight = [&](int input) { return static_cast<double>(buffers.input_as<T>(input)[c]); };
  if (p.direction == PROFKIT_FORWARD) {
    Sums sums;
    if (p.mode == PROFKIT_INFERENCE) {
      sums.mean = weight(3);
      sums.variance = weight(4);
    } else {
      sums = sums_of<T>(p, c, x, nullptr);
    }
    const double factor = weight(1) / std::sqrt(sums.variance + p.epsilon), shift = weight(2);
    each_element(p, c, [&](int64_t at) {
      output[at] = static_cast<T>((static_cast<double>(x[at]) - sums.mean) * factor + shift);
    });
    return;
  }
  const bool by_parameters = p.direction == PROFKIT_WEIGHT_GRADIENT;
  const T* dy = buffers.input_as<T>(by_parameters ? 1 : 2);
  const Sums sums = sums_of(p, c, x, dy);
  const double inverse = 1 / std::sqrt(sums.variance + p.epsilon);
  if (by_parameters) {
    output[c] = static_cast<T>(sums.along * inverse);
    output[p.channels + c] = static_cast<T>(sums.dy);
    return;
  }
  const double count = static_cast<double>(p.batch * p.height * p.width), scale = weight(1);
  each_element(p, c, [&](int64_t at) {
    const double centred = static_cast<double>(x[at]) - sums.mean;
    const double own = static_cast<double>(dy[at]) - sums.dy / count;
    output[at] = static_cast<T>(scale * inverse * (own - centred * inverse * inverse * sums.along / count));
  });
}

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  parallel(threads, [&](int thread) {
    const Range own = split(p.channels, threads, thread);
    for (int64_t c = own.begin; c < own.end; ++c) run_channel<T>(p, buffers, c);
  });
}

}  // namespace

PROFKIT_REFERENCE(batch_norm)

}  // namespace profkit
