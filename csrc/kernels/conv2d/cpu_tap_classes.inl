// Positions of a gather sorted by the taps that fall inside the image, and the two register tiles that
// cpu_inside_taps.inl makes of them: one class per tile, or several classes with a pointer per tap.
// Bottleneck: FMA; per k, R broadcasts and V loads feed R*V FMAs.
#pragma once

#include "kernels/conv2d/cpu_weights.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Positions [begin, end) of an axis, of which taps [first, first + count) are inside the image. Both ends of
// the taps only fall along an axis, so that every class is one range.
struct TapClass {
  int64_t begin, end, first, count;
};

PROFKIT_INLINE TapClass taps_inside(const Axis& axis, int64_t q) {
  const int64_t at = q * axis.step + axis.first, step = larger(1, axis.tap_step);
  const int64_t first = at < 0 ? ceil_div(-at, step) : 0;
  const int64_t end = at < axis.size ? smaller(axis.taps, ceil_div(axis.size - at, step)) : 0;
  return first < end ? TapClass{q, q + 1, first, end - first} : TapClass{q, q + 1, 0, 0};
}

PROFKIT_INLINE int64_t find_classes(const Axis& axis, TapClass* classes) {
  int64_t count = 0;
  for (int64_t q = 0; q < axis.grid; ++q) {
    const TapClass found = taps_inside(axis, q);
    const bool same =
        count && classes[count - 1].first == found.first && classes[count - 1].count == found.count;
    if (same) {
      classes[count - 1].end = q + 1;
    } else {
      classes[count++] = found;
    }
  }
  return count;
}

// A stretch of the reduction: `length` elements from `source` of each position, and as many rows of the panel
// from `weights` on.
struct TapRun {
  int64_t source, weights, length;
};

// Positions of one class.
template <class T>
struct ClassTile {
  const T* rows[kTileRows];
  const TapRun* runs;
  int64_t run_count;
  const T* b;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    const T* row[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) row[i] = rows[i];
    for (const TapRun* run = runs; run < runs + run_count; ++run) {
      const T* pb = b + run->weights * kTileColumns<T>;
      const int64_t end = run->source + run->length;
#pragma GCC unroll 4
      for (int64_t p = run->source; p < end; ++p) {
        T left[R];
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) left[i] = row[i][p];
        multiply_add<T, R, V>(sum, left, pb);
        pb += kTileColumns<T>;
      }
    }
  }
};

// Positions of several classes: a pointer per tap and position.
template <class T>
struct StrayTile {
  const T* const* pixels;  // [tap][tile rows]
  const int64_t* weights;  // [tap]
  int64_t taps, channels;
  const T* b;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const T* row[R];
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) row[i] = pixels[tap * kTileRows + i];
      const T* pb = b + weights[tap] * kTileColumns<T>;
#pragma GCC unroll 4
      for (int64_t p = 0; p < channels; ++p) {
        T left[R];
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) left[i] = row[i][p];
        multiply_add<T, R, V>(sum, left, pb);
        pb += kTileColumns<T>;
      }
    }
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
