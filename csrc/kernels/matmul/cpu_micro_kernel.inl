// The register tile: R x V accumulators (rows x vectors) stay in registers over the whole reduction, then go
// through bias and ReLU to memory. Three ways to feed it, by where the operands lie:
//   PackedTile  A [k][tile rows], B [k][tile columns]                        (matmul, NCHW convolution)
//   RowsTile    A read in place through one pointer per row, B as above      (NHWC convolution, weight
//   gradient) TableTile   A as in PackedTile, B read in place at base + offset[k]      (direct convolution)
// One thread owns one tile. Bottleneck: the FMA units; per k, R broadcasts and V loads feed R*V FMAs.
#pragma once

#include "kernels/matmul/cpu_simd.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Where a result goes: element (i, j) is at data + row(i) + column(j). A row is row_stride apart from the
// next unless row_offset says otherwise; columns are adjacent unless column_offset (increasing) says
// otherwise.
template <class T>
struct Out {
  T* data;
  int64_t row_stride;
  const int64_t* row_offset;
  const int64_t* column_offset;
  const T* row_bias;
  const T* column_bias;
  bool accumulate;  // add to what is there
  bool relu;

  PROFKIT_INLINE int64_t row(int64_t i) const { return row_offset ? row_offset[i] : i * row_stride; }
};

// A stretch of the reduction that lies contiguously in memory: `length` elements from `offset` of each row.
struct Run {
  int64_t offset, length;
};

template <class T, int R, int V>
using Accumulators = Vec<T>[R][V];

template <class T, int R, int V>
PROFKIT_INLINE void multiply_add(Accumulators<T, R, V>& sum, const T (&a)[R], const T* b) {
  Vec<T> column[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) column[v] = load(b + v * kWidth<T>);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[i][v] += a[i] * column[v];
  }
}

template <class T>
struct PackedTile {
  int64_t k;
  const T* a;
  const T* b;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    const T* pa = a;
    const T* pb = b;
#pragma GCC unroll 4
    for (int64_t p = 0; p < k; ++p) {
      T left[R];
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) left[i] = pa[i];
      multiply_add<T, R, V>(sum, left, pb);
      pa += kTileRows;
      pb += kTileColumns<T>;
    }
  }
};

template <class T>
struct RowsTile {
  const T* rows[kTileRows];
  const Run* runs;
  int64_t run_count;
  const T* b;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    const T* pb = b;
    for (int64_t r = 0; r < run_count; ++r) {
      const T* row[R];
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) row[i] = rows[i] + runs[r].offset;
      const int64_t length = runs[r].length;
      for (int64_t p = 0; p < length; ++p) {
        T left[R];
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) left[i] = row[i][p];
        multiply_add<T, R, V>(sum, left, pb);
        pb += kTileColumns<T>;
      }
    }
  }
};

template <class T>
struct TableTile {
  int64_t k;
  const T* a;
  const T* base;
  const int64_t* offset;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    const T* pa = a;
    for (int64_t p = 0; p < k; ++p) {
      T left[R];
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) left[i] = pa[i];
      multiply_add<T, R, V>(sum, left, base + offset[p]);
      pa += kTileRows;
    }
  }
};

// Element by element: for tiles at the edge and for columns that are not adjacent in memory.
template <class T>
__attribute__((noinline)) void scatter_tile(const T* tile, int64_t pitch, const Out<T>& out, int64_t i0,
                                            int64_t j0, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    T* row = out.data + out.row(i0 + i);
    for (int64_t j = 0; j < columns; ++j) {
      T* target = row + (out.column_offset ? out.column_offset[j0 + j] : j0 + j);
      T value = tile[i * pitch + j];
      if (out.accumulate) value += *target;
      if (out.row_bias) value += out.row_bias[i0 + i];
      if (out.column_bias) value += out.column_bias[j0 + j];
      *target = out.relu && value < 0 ? T(0) : value;
    }
  }
}

template <class T, int R, int V>
PROFKIT_INLINE void finish(Accumulators<T, R, V>& sum, const Out<T>& out, int64_t i0, int64_t j0,
                           int64_t columns) {
  constexpr int width = kWidth<T>;
  const int64_t* offset = out.column_offset;
  const bool adjacent = !offset || offset[j0 + columns - 1] - offset[j0] == columns - 1;
  if (columns < V * width || !adjacent) {
    alignas(64) T tile[R][V * width];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) store(&tile[i][v * width], sum[i][v]);
    }
    scatter_tile(&tile[0][0], V * width, out, i0, j0, R, columns);
    return;
  }
  T* corner = out.data + (offset ? offset[j0] : j0);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
    T* row = corner + out.row(i0 + i);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      Vec<T> value = sum[i][v];
      if (out.accumulate) value += load(row + v * width);
      if (out.row_bias) value += broadcast(out.row_bias[i0 + i]);
      if (out.column_bias) value += load(out.column_bias + j0 + v * width);
      if (out.relu) value = relu<T>(value);
      store(row + v * width, value);
    }
  }
}

template <class T, int R, int V, class Feed>
__attribute__((noinline)) void run_tile_sized(const Feed& feed, const Out<T>& out, int64_t i, int64_t j,
                                              int64_t columns) {
  Accumulators<T, R, V> sum = {};
  feed.template multiply<R, V>(sum);
  finish<T, R, V>(sum, out, i, j, columns);
}

// The instance for the tile's size: a tile at the edge computes only the rows it has.
template <class T, int R = kTileRows, int V = kTileVectors, class Feed>
PROFKIT_INLINE void run_tile(const Feed& feed, const Out<T>& out, int64_t i, int64_t j, int64_t rows,
                             int64_t columns) {
  if constexpr (V > 1) {
    if (columns <= (V - 1) * kWidth<T>) return run_tile<T, R, V - 1>(feed, out, i, j, rows, columns);
  }
  if constexpr (R > 1) {
    if (rows < R) return run_tile<T, R - 1, V>(feed, out, i, j, rows, columns);
  }
  run_tile_sized<T, R, V>(feed, out, i, j, columns);
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
