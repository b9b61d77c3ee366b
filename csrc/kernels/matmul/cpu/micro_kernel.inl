// The register tile: R x V accumulators (rows x vectors) stay in registers over the whole reduction, then go
// through bias and ReLU to memory. Ways to feed it, by where the operands lie:
//   PackedTile   A [k][tile rows], B [k][tile columns]                       (matmul, NCHW convolution)
//   StreamedTile A and B read in place, B from far away                      (matmul, few rows)
//   InPlaceTile  A read in place, B in place or packed                       (matmul)
//   RowsTile     A read in place through one pointer per row, B packed       (NHWC convolution, gradient of
//                                                                             the weights)
// One thread owns one tile. Bottleneck: the FMA units; per k, R broadcasts and V loads feed R*V FMAs.
#pragma once

#include "kernels/matmul/cpu/packing.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Where a result goes: element (i, j) is at data + row(i) + column(j). A row is row_stride apart from the
// next unless row_offset says otherwise; columns are adjacent unless column_offset (increasing) says
// otherwise.
template <class T>
struct Out {
  T* data = nullptr;
  int64_t row_stride = 0;
  const int64_t* row_offset = nullptr;
  const int64_t* column_offset = nullptr;
  const T* row_bias = nullptr;
  const T* column_bias = nullptr;
  bool accumulate = false;  // add to what is there
  bool relu = false;

  PROFKIT_INLINE int64_t row(int64_t i) const { return row_offset ? row_offset[i] : i * row_stride; }
};

// Rows of B that a StreamedTile prefetches: a hundred cycles or more, and few enough for the
// ways of one set of L1, which rows a multiple of 4 KiB apart share.
constexpr int64_t kRowsAhead = 8;

// A stretch of the reduction that is contiguous in memory: `length` elements from `offset` of each row.
struct Run {
  int64_t offset, length;
};

template <class T, int V>
constexpr int kBytes = V * kWidth<T> * static_cast<int>(sizeof(T));

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

// Step p of the reduction, of rows that are read in place.
template <class T, int R, int V>
PROFKIT_INLINE void add_step(Accumulators<T, R, V>& sum, const T* const (&row)[R], int64_t p, const T* b) {
  T left[R];
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) left[i] = row[i][p];
  multiply_add<T, R, V>(sum, left, b);
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

// A and B read in place, either of A's strides being 1, whole vectors of B's rows, b_stride apart: for rows
// too few to repay packing. Prefetches: the tile is the first that reads these rows of B, and prefetches
// them.
template <class T, bool Prefetches>
struct StreamedTile {
  int64_t k;
  Strided<T> a;  // from the tile's first row and step on
  const T* b;
  int64_t b_stride;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    const T* row[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) row[i] = a.at(i, 0);
    const T* pb = b;
    int64_t step = 0;
    // Rows may be a page apart, where the hardware prefetcher stops. After the last row come the first ones
    // of the next panel.
    const int64_t turn = larger(0, k - kRowsAhead);
    const T* ahead = b + smaller(k, kRowsAhead) * b_stride;
#pragma GCC unroll 2
    for (int64_t p = 0; p < k; ++p) {
      if (Prefetches) {
        ahead = p == turn ? b + V * kWidth<T> : ahead + b_stride;
#pragma GCC unroll 4
        for (int v = 0; v < kBytes<T, V>; v += 64) {
          __builtin_prefetch(reinterpret_cast<const char*>(ahead) + v);
        }
        // Rows need not begin with a cache line.
        __builtin_prefetch(reinterpret_cast<const char*>(ahead) + kBytes<T, V> - 1);
      }
      add_step<T, R, V>(sum, row, step, pb);
      step += a.along_stride;
      pb += b_stride;
    }
  }
};

// A read in place, its rows a_stride apart; B packed or in place, its rows b_stride apart. The last `tail`
// steps are always packed: in place, whole vectors of a narrow matrix would end behind its last row. (Behind
// other rows they only hold columns of the next one, which no tile stores.)
template <class T>
struct InPlaceTile {
  int64_t k, tail;
  const T* a;
  int64_t a_stride;
  const T* b;
  int64_t b_stride;
  const T* b_tail;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    const T* row[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) row[i] = a + i * a_stride;
    const T* pb = b;
    int64_t p = 0;
#pragma GCC unroll 4
    for (; p < k - tail; ++p) {
      add_step<T, R, V>(sum, row, p, pb);
      pb += b_stride;
    }
    pb = b_tail;
    for (; p < k; ++p) {
      add_step<T, R, V>(sum, row, p, pb);
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
        add_step<T, R, V>(sum, row, p, pb);
        pb += kTileColumns<T>;
      }
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

// What is added to a vector of the result, or done to it, before it is stored; the vector's place is given.
template <class T>
PROFKIT_INLINE Vec<T> finished(Vec<T> value, const Out<T>& out, int64_t i, Vec<T> there, Vec<T> column_bias) {
  if (out.accumulate) value += there;
  if (out.row_bias) value += broadcast(out.row_bias[i]);
  if (out.column_bias) value += column_bias;
  return out.relu ? relu<T>(value) : value;
}

// A tile whose last vector has only some of its columns, all adjacent.
template <class T>
__attribute__((noinline)) void finish_edge(const T* tile, int64_t pitch, const Out<T>& out, int64_t i0,
                                           int64_t j0, int64_t rows, int64_t columns) {
  constexpr int width = kWidth<T>;
  const int64_t rest = columns % width, whole = columns - rest;
  for (int64_t i = 0; i < rows; ++i, tile += pitch) {
    T* row = out.data + (out.column_offset ? out.column_offset[j0] : j0) + out.row(i0 + i);
    const T* bias = out.column_bias ? out.column_bias + j0 : nullptr;
    for (int64_t j = 0; j < whole; j += width) {
      const Vec<T> there = out.accumulate ? load(row + j) : Vec<T>{};
      store(row + j, finished<T>(load(tile + j), out, i0 + i, there, bias ? load(bias + j) : Vec<T>{}));
    }
    const Vec<T> there = out.accumulate ? load_first(row + whole, rest) : Vec<T>{};
    const Vec<T> added = bias ? load_first(bias + whole, rest) : Vec<T>{};
    store_first(row + whole, finished<T>(load(tile + whole), out, i0 + i, there, added), rest);
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
    if (adjacent) return finish_edge(&tile[0][0], V * width, out, i0, j0, R, columns);
    return scatter_tile(&tile[0][0], V * width, out, i0, j0, R, columns);
  }
  T* corner = out.data + (offset ? offset[j0] : j0);
  // One test for the common case, a plain store, instead of four for every vector.
  if (!out.accumulate && !out.row_bias && !out.column_bias && !out.relu) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      T* row = corner + out.row(i0 + i);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) store(row + v * width, sum[i][v]);
    }
    return;
  }
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

// The lines that the tile's sums will be added to or stored in, prefetched before the reduction: their
// latency, and that of their pages' addresses, passes meanwhile.
template <class T, int R, int V>
PROFKIT_INLINE void prefetch_result(const Out<T>& out, int64_t i, int64_t j) {
  const T* corner = out.data + (out.column_offset ? out.column_offset[j] : j);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const char* row = reinterpret_cast<const char*>(corner + out.row(i + r));
#pragma GCC unroll 4
    for (int v = 0; v < kBytes<T, V>; v += 64) __builtin_prefetch(row + v, 1, 3);
  }
}

// Tiles of a matrix product follow each other along the rows of C, which the hardware prefetcher covers;
// after a short sum they would only wait for the lines they prefetch.
template <class Feed>
PROFKIT_INLINE bool prefetches_result(const Feed&) {
  return true;
}
template <class T>
PROFKIT_INLINE bool prefetches_result(const InPlaceTile<T>& tile) {
  return tile.k > 128;
}

template <class T, int R, int V, class Feed>
__attribute__((noinline)) void run_tile_sized(const Feed& feed, const Out<T>& out, int64_t i, int64_t j,
                                              int64_t columns) {
  Accumulators<T, R, V> sum = {};
  if (prefetches_result(feed)) prefetch_result<T, R, V>(out, i, j);
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
