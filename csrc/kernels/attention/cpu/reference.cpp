// Attention: plain loops, scores in double and made twice to need no memory, a query at a time. A thread owns
// heads. Bottleneck: the products.
#include <algorithm>
#include <cmath>

#include "kernels/attention/params.h"
#include "kernels/cpu/loops.h"
#include "kernels/registry.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

using Params = profkit_attention_params;

template <class T>
void run_head(const Params& p, const Buffers& buffers, int64_t n, int64_t head) {
  const int64_t row = p.heads * p.width, first = n * p.steps * row + head * p.width;
  const T *q = buffers.input_as<T>(0) + first, *k = buffers.input_as<T>(1) + first,
          *v = buffers.input_as<T>(2) + first;
  T* y = buffers.output_as<T>() + first;
  const double scale = 1 / std::sqrt(static_cast<double>(p.width));
  for (int64_t i = 0; i < p.steps; ++i, y += row) {
    const int64_t seen = p.causal ? i + 1 : p.steps;
    const auto score = [&](int64_t j) {
      double sum = 0;
      for (int64_t d = 0; d < p.width; ++d) {
        sum += static_cast<double>(q[i * row + d]) * static_cast<double>(k[j * row + d]);
      }
      return sum * scale;
    };
    double largest = score(0), sum = 0;
    for (int64_t j = 1; j < seen; ++j) largest = std::max(largest, score(j));
    for (int64_t d = 0; d < p.width; ++d) y[d] = 0;
    for (int64_t j = 0; j < seen; ++j) {
      const double weight = std::exp(score(j) - largest);
      sum += weight;
      for (int64_t d = 0; d < p.width; ++d)
        y[d] += static_cast<T>(weight * static_cast<double>(v[j * row + d]));
    }
    for (int64_t d = 0; d < p.width; ++d) y[d] = static_cast<T>(static_cast<double>(y[d]) / sum);
  }
}

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  parallel_pairs(threads, p.batch, p.heads,
                 [&](int64_t n, int64_t head) { run_head<T>(p, buffers, n, head); });
}

}  // namespace

PROFKIT_REFERENCE(attention)

}  // namespace profkit
