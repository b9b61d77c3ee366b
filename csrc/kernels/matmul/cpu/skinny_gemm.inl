// Matrix product with very few rows (m = 1..8) or one column, where each element of B is used m times at
// most: B is read once, in its own order, and never packed. B [k][n]: rows of C are built up in cache,
// several rows of B per pass; B [n][k] (transposed): dot products along k. A thread owns a range of columns.
// Bottleneck: memory bandwidth.
#pragma once

#include "kernels/matmul/cpu/gemm.inl"
#include "kernels/matmul/params.h"

namespace profkit {
namespace PROFKIT_ISA {

// Rows multiplied at a time: their coefficients for four rows of B fit the registers.
constexpr int64_t kFewRows = 4;
// With more rows the tiles of cpu/product.inl are faster; those of two vectors only from nine rows on. (Only
// where rows of C are built up.)
constexpr int64_t kMostRowsInCache = kTileVectors < 4 ? 8 : 4;
constexpr int64_t kRowsAtOnce = 8;  // of B; those after the first R rows of A find them in L1
constexpr int64_t kShortRow = 512;

// Dot products want a contiguous row of A as well, unless there is only one row to read.
template <class T>
bool is_skinny_gemm(const profkit_matmul_params& p) {
  if (!p.transpose_b && p.m <= kMostRowsInCache) return true;
  return p.m <= kFewRows && (!p.transpose_a || p.m == 1);
}

// One thread's share of one product.
template <class T>
struct MatrixPart {
  Strided<T> a;
  const T* b;
  T* c;
  const T* bias;
  int64_t n, l1d_bytes;
};

template <class T>
PROFKIT_INLINE T activated(const profkit_matmul_params& p, T value) {
  return p.activation == PROFKIT_RELU && value < T(0) ? T(0) : value;
}

// c[0..n) += sum over Depth rows of B; c is R rows, pitch apart, of whole vectors. Prefetches the rows of B
// that come `ahead` elements later: a part of a row is too short for the hardware prefetcher to reach the
// next one.
template <class T, int R, int Depth>
PROFKIT_INLINE void add_rows(T* c, int64_t c_pitch, const T (&a)[R][Depth], const T* b, int64_t b_pitch,
                             int64_t n, int64_t ahead) {
  constexpr int width = kWidth<T>, line = 64 / static_cast<int>(sizeof(T));
  int64_t j = 0;
  for (; j + width <= n; j += width) {
    if (ahead > 0 && j % line == 0) {
#pragma GCC unroll 8
      for (int d = 0; d < Depth; ++d) __builtin_prefetch(b + d * b_pitch + ahead + j);
    }
    Vec<T> row[Depth];
#pragma GCC unroll 8
    for (int d = 0; d < Depth; ++d) row[d] = load(b + d * b_pitch + j);
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      Vec<T> sum = load(c + i * c_pitch + j);
#pragma GCC unroll 8
      for (int d = 0; d < Depth; ++d) sum += a[i][d] * row[d];
      store(c + i * c_pitch + j, sum);
    }
  }
  if (j == n) return;
  Vec<T> row[Depth];
#pragma GCC unroll 8
  for (int d = 0; d < Depth; ++d) row[d] = load_first(b + d * b_pitch + j, n - j);
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
    Vec<T> sum = load(c + i * c_pitch + j);
#pragma GCC unroll 8
    for (int d = 0; d < Depth; ++d) sum += a[i][d] * row[d];
    store(c + i * c_pitch + j, sum);
  }
}

// Rows of C under construction, in L1 and aligned, whatever C itself is: no vector is in two lines, and no
// line is written by two threads until all is summed up.
template <class T>
struct RowSums {
  static constexpr int64_t kElements = 24576 / sizeof(T);
  alignas(64) T data[kElements];
  int64_t n;      // columns
  int64_t pitch;  // of rows

  // Columns for which this many rows, and the rows of B that they share, fit L1; whole cache lines.
  static int64_t most_columns(int64_t rows, int64_t l1d_bytes) {
    const int64_t fitting = l1d_bytes * 3 / 4 / static_cast<int64_t>(sizeof(T)) / (rows + kRowsAtOnce);
    return larger(64, smaller(kElements / rows, fitting) / 64 * 64);
  }
};

// R rows from row `i` on: += Depth rows of B, from k on, columns from `first`.
template <class T, int R, int Depth>
PROFKIT_INLINE void add_rows_from(const profkit_matmul_params& p, const MatrixPart<T>& x, RowSums<T>& sums,
                                  int64_t first, int64_t i, int64_t k, bool reads_ahead) {
  T a[R][Depth];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int d = 0; d < Depth; ++d) a[r][d] = *x.a.at(i + r, k + d);
  }
  add_rows<T, R, Depth>(sums.data + i * sums.pitch, sums.pitch, a, x.b + k * p.n + first, p.n, sums.n,
                        reads_ahead ? kRowsAtOnce * p.n : 0);
}

// Some rows of B against rows of A from `i` on, R at a time: only the first R wait for memory.
template <class T, int R>
void accumulate_block(const profkit_matmul_params& p, const MatrixPart<T>& x, RowSums<T>& sums, int64_t first,
                      Part steps, int64_t i = 0) {
  constexpr int depth = 4;
  for (; i + R <= p.m; i += R) {
    int64_t k = steps.begin;
    for (; k + depth <= steps.end; k += depth) {
      add_rows_from<T, R, depth>(p, x, sums, first, i, k, i == 0);
    }
    for (; k < steps.end; ++k) add_rows_from<T, R, 1>(p, x, sums, first, i, k, false);
  }
  if constexpr (R > 1) {
    if (i < p.m) accumulate_block<T, R - 1>(p, x, sums, first, steps, i);
  }
}

template <class T, int R>
void accumulate_rows(const profkit_matmul_params& p, const MatrixPart<T>& x) {
  RowSums<T> sums;
  const int64_t most = RowSums<T>::most_columns(p.m, x.l1d_bytes);
  for (int64_t first = 0; first < x.n; first += most) {
    sums.n = smaller(most, x.n - first);
    sums.pitch = round_up(sums.n, 16);
    for (int64_t i = 0; i < p.m; ++i) {
      T* row = sums.data + i * sums.pitch;
      for (int64_t j = 0; j < sums.n; ++j) row[j] = x.bias ? x.bias[first + j] : T(0);
      for (int64_t j = sums.n; j < sums.pitch; ++j) row[j] = 0;  // whole vectors are added to
    }
    for (int64_t k = 0; k < p.k; k += kRowsAtOnce) {
      accumulate_block<T, R>(p, x, sums, first, {k, smaller(p.k, k + kRowsAtOnce)});
    }
    for (int64_t i = 0; i < p.m; ++i) {
      const T* row = sums.data + i * sums.pitch;
      T* c = x.c + i * p.n + first;
      for (int64_t j = 0; j < sums.n; ++j) c[j] = activated<T>(p, row[j]);
    }
  }
}

// R rows of A against Columns rows of B, all contiguous along k.
template <class T, int R, int Columns>
PROFKIT_INLINE void dot_products(const profkit_matmul_params& p, const MatrixPart<T>& x, int64_t j) {
  constexpr int width = kWidth<T>;
  Vec<T> sum[R][Columns] = {};
  int64_t k = 0;
  for (; k + width <= p.k; k += width) {
    Vec<T> b[Columns];
#pragma GCC unroll 4
    for (int c = 0; c < Columns; ++c) b[c] = load(x.b + (j + c) * p.k + k);
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const Vec<T> a = load(x.a.data + i * p.k + k);
#pragma GCC unroll 4
      for (int c = 0; c < Columns; ++c) sum[i][c] += a * b[c];
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int c = 0; c < Columns; ++c) {
      T total = 0;
      for (int lane = 0; lane < width; ++lane) total += sum[i][c][lane];
      for (int64_t rest = k; rest < p.k; ++rest)
        total += x.a.data[i * p.k + rest] * x.b[(j + c) * p.k + rest];
      x.c[i * p.n + j + c] = activated<T>(p, total + (x.bias ? x.bias[j + c] : T(0)));
    }
  }
}

// One row of A against as many rows of B as a vector has lanes: their sums leave as one vector.
template <class T>
PROFKIT_INLINE void dot_products_of_row(const profkit_matmul_params& p, const MatrixPart<T>& x, int64_t j) {
  constexpr int width = kWidth<T>;
  Vec<T> sum[width] = {};
  const T* b = x.b + j * p.k;
  int64_t k = 0;
  for (; k + width <= p.k; k += width) {
    const Vec<T> a = load(x.a.data + k);
#pragma GCC unroll 16
    for (int c = 0; c < width; ++c) sum[c] += a * load(b + c * p.k + k);
  }
  if (k < p.k) {
    const Vec<T> a = load_first(x.a.data + k, p.k - k);
#pragma GCC unroll 16
    for (int c = 0; c < width; ++c) sum[c] += a * load_first(b + c * p.k + k, p.k - k);
  }
  // The steps of a transpose, each followed by the sum of its halves.
#pragma GCC unroll 4
  for (int half = width / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int c = 0; c < half; ++c) {
      sum[c] = interleave<T, false>(sum[c], sum[c + half]) + interleave<T, true>(sum[c], sum[c + half]);
    }
  }
  if (x.bias) sum[0] += load(x.bias + j);
  store(x.c + j, p.activation == PROFKIT_RELU ? relu<T>(sum[0]) : sum[0]);
}

template <class T, int R>
void skinny_gemm_part(const profkit_matmul_params& p, const MatrixPart<T>& x) {
  if (!p.transpose_b) return accumulate_rows<T, R>(p, x);
  int64_t j = 0;
  if constexpr (R == 1) {
    // Long rows come from memory, and a vector's worth of them are too many streams at once.
    for (; p.k <= kShortRow && j + kWidth<T> <= x.n; j += kWidth<T>) dot_products_of_row<T>(p, x, j);
  }
  for (; j + 4 <= x.n; j += 4) dot_products<T, R, 4>(p, x, j);
  for (; j < x.n; ++j) dot_products<T, R, 1>(p, x, j);
}

// Threads share the batch when it is long enough, else the columns.
template <class T>
void skinny_gemm_launch(const profkit_matmul_params& p, const CpuCall& call) {
  const bool by_batch = p.batch >= call.threads;
  on_threads(call.threads, [&](int thread) {
    const Part columns = by_batch ? Part{0, p.n} : part_of(p.n, 16, call.threads, thread);
    const Part items = by_batch ? part_of(p.batch, 1, call.threads, thread) : Part{0, p.batch};
    if (columns.size() == 0) return;
    for (int64_t item = items.begin; item < items.end; ++item) {
      MatrixPart<T> x;
      x.a = {static_cast<const T*>(call.inputs[0]) + item * p.m * p.k, p.transpose_a ? 1 : p.k,
             p.transpose_a ? p.m : 1};
      x.b = static_cast<const T*>(call.inputs[1]) + item * p.k * p.n +
            columns.begin * (p.transpose_b ? p.k : 1);
      x.c = static_cast<T*>(call.output) + item * p.m * p.n + columns.begin;
      x.bias = p.bias ? static_cast<const T*>(call.inputs[2]) + columns.begin : nullptr;
      x.n = columns.size();
      x.l1d_bytes = call.blocking.l1d_bytes;
      switch (p.m) {
        case 1:
          skinny_gemm_part<T, 1>(p, x);
          break;
        case 2:
          skinny_gemm_part<T, 2>(p, x);
          break;
        case 3:
          skinny_gemm_part<T, 3>(p, x);
          break;
        default:
          skinny_gemm_part<T, 4>(p, x);
      }
    }
  });
}

// A single column is a single row of the transposed product: C is contiguous either way, and A, read as B
// [n][k], needs no packing.
template <class T>
void single_column_launch(const profkit_matmul_params& p, const CpuCall& call) {
  profkit_matmul_params transposed = p;
  transposed.m = 1;
  transposed.n = p.m;
  transposed.transpose_a = 0;
  transposed.transpose_b = p.transpose_a == 0;
  transposed.bias = 0;
  if (p.bias) transposed.activation = PROFKIT_NONE;  // the bias comes first, and after the product
  CpuCall swapped = call;
  swapped.inputs[0] = call.inputs[1];
  swapped.inputs[1] = call.inputs[0];
  skinny_gemm_launch<T>(transposed, swapped);
  if (!p.bias) return;
  const T bias = *static_cast<const T*>(call.inputs[2]);
  T* c = static_cast<T*>(call.output);
  for (int64_t i = 0; i < p.batch * p.m; ++i) c[i] = activated<T>(p, c[i] + bias);
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
