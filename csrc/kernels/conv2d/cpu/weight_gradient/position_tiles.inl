// Feeds of the register tile for weight gradients, whose reduction runs over positions: a list of runs that
// name where they start on both sides, so that positions at which a tap reads outside the image are left out.
//   LinesTile     A through one pointer per row, along each with the same step      (NCHW)
//   AdjacentTile  A with the rows of a tile side by side, one pointer               (NHWC)
// One thread owns one tile. Bottleneck: FMA; for runs of a few positions, their ends.
#pragma once

#include "kernels/conv2d/cpu/gather/geometry.inl"

namespace profkit {
namespace PROFKIT_ISA {

struct PositionRun {
  int64_t a, b, length;  // elements from the rows' start, positions from the columns' start, positions
};

template <class T>
struct LinesTile {
  const T* rows[kTileRows];
  int64_t step;
  const T* b;
  int64_t b_step;
  const PositionRun* runs;
  int64_t run_count;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    const int64_t a_step = step, column_step = b_step;
    for (const PositionRun *run = runs, *last = runs + run_count; run < last; ++run) {
      const T* pb = b + run->b * column_step;
      const T* row[R];
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) row[i] = rows[i] + run->a;
      const int64_t end = run->length * a_step;
      for (int64_t p = 0; p < end; p += a_step) {
        add_step<T, R, V>(sum, row, p, pb);
        pb += column_step;
      }
    }
  }
};

template <class T>
struct AdjacentTile {
  const T* rows;
  int64_t step;
  const T* b;
  int64_t b_step;
  const PositionRun* runs;
  int64_t run_count;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    const int64_t a_step = step, column_step = b_step;
    for (const PositionRun *run = runs, *last = runs + run_count; run < last; ++run) {
      const T* pb = b + run->b * column_step;
      const T* pa = rows + run->a;
      for (int64_t p = run->length; p > 0; --p) {
        T left[R];
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) left[i] = pa[i];
        multiply_add<T, R, V>(sum, left, pb);
        pa += a_step;
        pb += column_step;
      }
    }
  }
};

// Lines of a tile's rows that the next block of positions reads, prefetched while this one is multiplied, a
// share per panel: blocks are too short for the hardware prefetcher. `first` is the row's next element.
template <class T>
PROFKIT_INLINE void prefetch_ahead(const T* first, int64_t row_stride, int64_t rows, int64_t count,
                                   int64_t panel, int64_t panels) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t lines = ceil_div(count, line);
  const int64_t begin = lines * panel / panels, end = lines * (panel + 1) / panels;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = begin; i < end; ++i) __builtin_prefetch(first + r * row_stride + i * line, 0, 2);
  }
}

// Positions of an axis at which a tap reads inside the image: [begin, end).
PROFKIT_INLINE Part inside_of(const Axis& axis, int64_t tap) {
  const int64_t start = axis.first + tap * axis.tap_step;
  const int64_t begin = start < 0 ? ceil_div(-start, axis.step) : 0;
  const int64_t end = start < axis.size ? ceil_div(axis.size - start, axis.step) : 0;
  return {smaller(begin, axis.grid), larger(smaller(begin, axis.grid), smaller(end, axis.grid))};
}

// Rows in tiles of sizes that differ by one at most: a tile of one or two rows would wait for its own sums.
PROFKIT_INLINE Part even_tile(int64_t rows, int64_t tiles, int64_t tile) {
  return {rows * tile / tiles, rows * (tile + 1) / tiles};
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
