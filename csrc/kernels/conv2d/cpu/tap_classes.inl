// Positions of a gather sorted by the taps that fall inside the image, and the two register tiles that
// cpu/skip_padding.inl makes of them: one class per tile, or several classes with a pointer per tap.
// Bottleneck: FMA; per k, R broadcasts and V loads feed R*V FMAs.
#pragma once

#include "kernels/conv2d/cpu/gather/weights.inl"

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
        add_step<T, R, V>(sum, row, p, pb);
        pb += kTileColumns<T>;
      }
    }
  }
};

// Tiles of fewer vectors were slower with prefetches between steps.
constexpr bool kMayPrefetchBetweenSteps = PROFKIT_VECTOR_BYTES >= 64;

// What later tiles read and write, prefetched between the steps of this one: all at once it would fill the
// line buffers, and the tile's own loads would wait for memory.
template <class T>
struct PrefetchQueue {
  static constexpr int kSteps = 4;  // between two prefetches

  const char *source, *source_end;  // a part of the images, to L2
  int64_t source_bytes;             // at a time
  const T* written;                 // rows of the result that a later tile writes
  const int64_t* written_rows;
  int64_t written_count, rows_at_once;

  PROFKIT_INLINE bool is_left() const { return source < source_end || written_count > 0; }

  // A tile's columns are V vectors.
  template <int V>
  PROFKIT_INLINE void prefetch() {
    const char* to = source + smaller(source_bytes, source_end - source);
    for (; source < to; source += 64) __builtin_prefetch(source, 0, 2);
    for (int64_t n = 0; n < rows_at_once && written_count > 0; ++n, --written_count) {
      const char* row = reinterpret_cast<const char*>(written + *written_rows++);
#pragma GCC unroll 4
      for (int v = 0; v < kBytes<T, V>; v += 64) __builtin_prefetch(row + v, 1, 3);
    }
  }
};

// The same, prefetching between the steps.
template <class T>
struct PrefetchingClassTile : ClassTile<T> {
  PrefetchQueue<T> queue;

  template <int R, int V>
  PROFKIT_INLINE void multiply(Accumulators<T, R, V>& sum) const {
    const T* row[R];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) row[i] = this->rows[i];
    PrefetchQueue<T> left = queue;
    for (const TapRun* run = this->runs; run < this->runs + this->run_count; ++run) {
      const T* pb = this->b + run->weights * kTileColumns<T>;
      const int64_t end = run->source + run->length;
      int64_t p = run->source;
      for (; left.is_left() && p + left.kSteps <= end; p += left.kSteps) {
        left.template prefetch<V>();
#pragma GCC unroll 4
        for (int step = 0; step < left.kSteps; ++step, pb += kTileColumns<T>) {
          add_step<T, R, V>(sum, row, p + step, pb);
        }
      }
#pragma GCC unroll 4
      for (; p < end; ++p, pb += kTileColumns<T>) add_step<T, R, V>(sum, row, p, pb);
    }
    // Runs too short to prefetch in.
    while (left.is_left()) left.template prefetch<V>();
  }
};

// An earlier tile has prefetched the results of this one.
template <class T>
PROFKIT_INLINE bool prefetches_result(const PrefetchingClassTile<T>&) {
  return false;
}

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
        add_step<T, R, V>(sum, row, p, pb);
        pb += kTileColumns<T>;
      }
    }
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
