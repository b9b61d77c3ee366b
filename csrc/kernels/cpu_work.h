// How many threads a call is worth: an operator's numbers in, a thread count out. Little work is done by fewer
// threads than were asked for, since starting a thread and waiting for it costs about a microsecond.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "kernels/params.h"

namespace profkit {

// What a fast core does in a nanosecond; half of it on a slow one only makes the guess more careful.
constexpr double kProductsPerNs = 64, kElementsPerNs = 4;
constexpr double kLeastNsPerThread = 3000;

inline double product_of(std::initializer_list<int64_t> sizes) {
  double product = 1;
  for (const int64_t size : sizes) product *= static_cast<double>(size);
  return product;
}

inline double guessed_ns(double products, double elements) {
  return products / kProductsPerNs + elements / kElementsPerNs;
}
inline double guessed_ns(const profkit_conv2d_params& p) {
  const double channels = static_cast<double>(p.in_channels) / static_cast<double>(std::max<int64_t>(1, p.groups));
  const double results = product_of({p.batch, p.out_channels, p.out_h, p.out_w});
  const double filter = channels * product_of({p.kernel_h, p.kernel_w});
  return guessed_ns(results * filter, product_of({p.batch, p.in_channels, p.height, p.width}) + results +
                                          filter * static_cast<double>(p.out_channels));
}
inline double guessed_ns(const profkit_matmul_params& p) {
  const double elements = product_of({p.m, p.k}) + product_of({p.k, p.n}) + product_of({p.m, p.n});
  return static_cast<double>(p.batch) * guessed_ns(product_of({p.m, p.n, p.k}), elements);
}
inline double guessed_ns(const profkit_pool2d_params& p) {
  const double results = product_of({p.batch, p.channels, p.out_h, p.out_w});
  return guessed_ns(results * static_cast<double>(p.kernel_h + p.kernel_w),
                    results + product_of({p.batch, p.channels, p.height, p.width}));
}
inline double guessed_ns(const profkit_lrn_params& p) {
  return guessed_ns(0, 4 * product_of({p.batch, p.channels, p.height, p.width}));  // a power each
}
inline double guessed_ns(const profkit_bias_relu_params& p) {
  return guessed_ns(0, 2 * product_of({p.batch, p.channels, p.height, p.width}));
}
inline double guessed_ns(const profkit_softmax_params& p) {
  return guessed_ns(0, 4 * product_of({p.rows, p.columns}));  // an exponential each
}

// The same for the same call, so that results do not depend on what the machine does meanwhile.
template <class Params>
int worthwhile_threads(const Params& params, int threads) {
  const double most = std::max(1.0, guessed_ns(params) / kLeastNsPerThread);
  return most >= threads ? std::max(1, threads) : static_cast<int>(most);
}

}  // namespace profkit
