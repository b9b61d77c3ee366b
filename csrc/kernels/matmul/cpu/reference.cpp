// Matrix product by definition: plain loops, sums in double. One thread owns whole rows of the result,
// counted over the batch. Correct, not fast: reading b by columns misses the cache.
#include "kernels/matmul/params.h"
#include "kernels/registry.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

template <class T>
void launch(const profkit_matmul_params& p, const Buffers& buffers, int threads) {
  const T* all_a = buffers.input_as<T>(0);
  const T* all_b = buffers.input_as<T>(1);
  const T* bias = p.bias != 0 ? buffers.input_as<T>(2) : nullptr;
  T* all_c = buffers.output_as<T>();
  parallel(threads, [&](int thread) {
    const Range rows = split(p.batch * p.m, threads, thread);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t item = row / p.m, m = row % p.m;
      const T* a = all_a + item * p.m * p.k;
      const T* b = all_b + item * p.k * p.n;
      for (int64_t n = 0; n < p.n; ++n) {
        double sum = bias != nullptr ? static_cast<double>(bias[n]) : 0.0;
        for (int64_t k = 0; k < p.k; ++k) {
          const T left = p.transpose_a != 0 ? a[k * p.m + m] : a[m * p.k + k];
          const T right = p.transpose_b != 0 ? b[n * p.k + k] : b[k * p.n + n];
          sum += static_cast<double>(left) * static_cast<double>(right);
        }
        const T value = static_cast<T>(sum);
        all_c[row * p.n + n] = p.activation == PROFKIT_RELU && value < T(0) ? T(0) : value;
      }
    }
  });
}

}  // namespace

PROFKIT_REFERENCE(matmul)

}  // namespace profkit
