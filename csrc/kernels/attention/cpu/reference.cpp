// Attention and its gradients: plain loops, scores in double, a query at a time; forward they are made twice
// to need no memory. A thread owns heads. Bottleneck: the products.
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

// `sums` holds the gradients of the head by k and by v, [2][steps][width], and those by the shares of a
// query.
template <class T>
void run_gradients(const Params& p, const Buffers& buffers, int64_t n, int64_t head, double* sums) {
  const int64_t row = p.heads * p.width, first = n * p.steps * row + head * p.width;
  const T *q = buffers.input_as<T>(0) + first, *k = buffers.input_as<T>(1) + first,
          *v = buffers.input_as<T>(2) + first, *dy = buffers.input_as<T>(3) + first;
  T *dq = buffers.output_as<T>() + first, *dk = dq + p.batch * p.steps * row,
    *dv = dk + p.batch * p.steps * row;
  double *by_k = sums, *by_v = by_k + p.steps * p.width, *shares = by_v + p.steps * p.width,
         *by_shares = shares + p.steps, *by_q = by_shares + p.steps;
  const double scale = 1 / std::sqrt(static_cast<double>(p.width));
  const auto product = [&](const T* a, const T* b) {
    double sum = 0;
    for (int64_t d = 0; d < p.width; ++d) sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
    return sum;
  };
  for (int64_t i = 0; i < 2 * p.steps * p.width; ++i) sums[i] = 0;
  for (int64_t i = 0; i < p.steps; ++i) {
    const int64_t seen = p.causal ? i + 1 : p.steps;
    double largest = -INFINITY, sum = 0, mean = 0;
    for (int64_t j = 0; j < seen; ++j) {
      shares[j] = product(q + i * row, k + j * row) * scale;
      largest = std::max(largest, shares[j]);
    }
    for (int64_t j = 0; j < seen; ++j) sum += shares[j] = std::exp(shares[j] - largest);
    for (int64_t j = 0; j < seen; ++j) {
      shares[j] /= sum;
      by_shares[j] = product(dy + i * row, v + j * row);
      mean += shares[j] * by_shares[j];
    }
    for (int64_t d = 0; d < p.width; ++d) by_q[d] = 0;
    for (int64_t j = 0; j < seen; ++j) {
      const double by_score = shares[j] * (by_shares[j] - mean) * scale;
      for (int64_t d = 0; d < p.width; ++d) {
        by_q[d] += by_score * static_cast<double>(k[j * row + d]);
        by_k[j * p.width + d] += by_score * static_cast<double>(q[i * row + d]);
        by_v[j * p.width + d] += shares[j] * static_cast<double>(dy[i * row + d]);
      }
    }
    for (int64_t d = 0; d < p.width; ++d) dq[i * row + d] = static_cast<T>(by_q[d]);
  }
  for (int64_t i = 0; i < p.steps; ++i) {
    for (int64_t d = 0; d < p.width; ++d) {
      dk[i * row + d] = static_cast<T>(by_k[i * p.width + d]);
      dv[i * row + d] = static_cast<T>(by_v[i * p.width + d]);
    }
  }
}

int64_t sums_of_head(const Params& p) { return 2 * p.steps * p.width + 2 * p.steps + p.width; }

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  if (p.direction == PROFKIT_FORWARD) {
    return parallel_pairs(threads, p.batch, p.heads,
                          [&](int64_t n, int64_t head) { run_head<T>(p, buffers, n, head); });
  }
  parallel(threads, [&](int thread) {
    const Range own = split(p.batch * p.heads, threads, thread);
    double* sums = buffers.workspace_as<double>() + thread * sums_of_head(p);
    for (int64_t head = own.begin; head < own.end; ++head) {
      run_gradients<T>(p, buffers, head / p.heads, head % p.heads, sums);
    }
  });
}

}  // namespace

PROFKIT_REFERENCE(attention)

size_t attention_reference_bytes(const Params& params, int threads) {
  if (params.direction == PROFKIT_FORWARD) return 0;
  return sizeof(double) * static_cast<size_t>(sums_of_head(params)) *
         static_cast<size_t>(threads < 1 ? 1 : threads);
}

}  // namespace profkit
