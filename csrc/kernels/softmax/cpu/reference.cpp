// Softmax of every row: plain loops, exponentials and sums in double, the row's maximum subtracted first so
// that nothing overflows. The gradient of its cross-entropy subtracts the labels. One thread owns whole rows.
// Bottleneck: exp, computed twice to need no memory.
#include <algorithm>
#include <cmath>

#include "kernels/registry.h"
#include "kernels/softmax/params.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

template <class T>
void softmax_row(const T* input, const T* labels, T* output, int64_t columns) {
  const double largest = static_cast<double>(*std::max_element(input, input + columns));
  double sum = 0;
  for (int64_t i = 0; i < columns; ++i) sum += std::exp(static_cast<double>(input[i]) - largest);
  for (int64_t i = 0; i < columns; ++i) {
    const double label = labels ? static_cast<double>(labels[i]) : 0;
    output[i] = static_cast<T>(std::exp(static_cast<double>(input[i]) - largest) / sum - label);
  }
}

template <class T>
void launch(const profkit_softmax_params& p, const Buffers& buffers, int threads) {
  const T* input = buffers.input_as<T>(0);
  const T* labels = p.direction == PROFKIT_FORWARD ? nullptr : buffers.input_as<T>(1);
  T* output = buffers.output_as<T>();
  parallel(threads, [&](int thread) {
    const Range rows = split(p.rows, threads, thread);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t at = row * p.classes;
      softmax_row(input + at, labels ? labels + at : nullptr, output + at, p.classes);
    }
  });
}

}  // namespace

PROFKIT_REFERENCE(softmax)

}  // namespace profkit
