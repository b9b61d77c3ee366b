// Softmax of one row with vectors: the maximum, then the exponentials and their sum, then the division, each
// once over the row, which stays in the first cache. A row's last, partial vector is filled up with -inf,
// whose exponential is 0.
#pragma once

#include "kernels/cpu/exponential.inl"
#include "kernels/cpu/work.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
PROFKIT_INLINE Vec<T> larger_of(Vec<T> a, Vec<T> b) {
  return a > b ? a : b;
}

// Pairwise by halves: log2(width) dependent steps instead of width.
template <class T>
PROFKIT_INLINE T largest_lane(Vec<T> v) {
  T lanes[kWidth<T>];
  store(lanes, v);
#pragma GCC unroll 4
  for (int half = kWidth<T> / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
  }
  return lanes[0];
}
template <class T>
PROFKIT_INLINE T sum_of_lanes(Vec<T> v) {
  T lanes[kWidth<T>];
  store(lanes, v);
#pragma GCC unroll 4
  for (int half = kWidth<T> / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// NaN need not propagate here: it makes its own exponential NaN, and with it the sum of the row.
template <class T>
PROFKIT_INLINE T largest_of_row(const T* x, int64_t whole, Vec<T> rest) {
  constexpr int64_t width = kWidth<T>;
  Vec<T> best[4] = {rest, rest, rest, rest};
  int64_t i = 0;
  for (; i + 4 * width <= whole; i += 4 * width) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) best[v] = larger_of<T>(load(x + i + v * width), best[v]);
  }
  for (; i < whole; i += width) best[0] = larger_of<T>(load(x + i), best[0]);
  return largest_lane<T>(larger_of<T>(larger_of<T>(best[0], best[1]), larger_of<T>(best[2], best[3])));
}

// Lanes first..width of the last vector of a row are its own; the others hold what came before.
template <class T>
PROFKIT_INLINE typename VecOf<T>::mask lanes_from(int64_t first) {
  typename VecOf<T>::mask lanes = {};
  for (int i = 0; i < kWidth<T>; ++i) lanes[i] = i >= first ? -1 : 0;
  return lanes;
}

// At least a vector long. The last vector overlaps the one before it; `own` are its lanes that do not. With
// Labels their row is subtracted.
template <class T, bool Labels = false>
PROFKIT_INLINE void softmax_row(const T* x, T* y, int64_t columns, typename VecOf<T>::mask own,
                                const T* labels = nullptr) {
  constexpr int64_t width = kWidth<T>;
  const int64_t whole = columns / width * width, overlapping = columns - width;
  const Vec<T> lowest = broadcast(-static_cast<T>(__builtin_inf()));
  const Vec<T> rest = own ? load(x + overlapping) : lowest;
  const Vec<T> largest = broadcast(largest_of_row(x, whole, rest));
  const Vec<T> last = exponential<T>(rest - largest);
  // In a row of -inf only, the overlapping lanes must not enter the sum twice.
  Vec<T> sums[2] = {own ? last : Vec<T>{}, {}};
  int64_t i = 0;
  for (; i + 2 * width <= whole; i += 2 * width) {
    const Vec<T> first = exponential<T>(load(x + i) - largest);
    const Vec<T> second = exponential<T>(load(x + i + width) - largest);
    store(y + i, first);
    store(y + i + width, second);
    sums[0] += first;
    sums[1] += second;
  }
  if (i < whole) {
    const Vec<T> value = exponential<T>(load(x + i) - largest);
    store(y + i, value);
    sums[1] += value;
  }
  const Vec<T> share = broadcast(1 / sum_of_lanes<T>(sums[0] + sums[1]));
  const auto label = [&](int64_t at) { return Labels ? load(labels + at) : Vec<T>{}; };
  for (i = 0; i < whole; i += width) store(y + i, load(y + i) * share - label(i));
  if (whole < columns) {
    store(y + overlapping, own ? last * share - label(overlapping) : load(y + overlapping));
  }
}

// Shorter than a vector. What is read beyond the row is of the next one, what is written there is written
// again.
template <class T, bool Labels = false>
PROFKIT_INLINE void softmax_short_row(const T* x, T* y, int64_t columns, bool has_room,
                                      typename VecOf<T>::mask beyond, const T* labels = nullptr) {
  const Vec<T> lowest = broadcast(-static_cast<T>(__builtin_inf()));
  Vec<T> row = lowest;
  if (has_room) {
    row = beyond ? lowest : load(x);
  } else {
    for (int64_t i = 0; i < columns; ++i) row[i] = x[i];
  }
  Vec<T> result = exponential<T>(row - broadcast(largest_lane<T>(row)));
  result = beyond ? Vec<T>{} : result;
  result *= broadcast(1 / sum_of_lanes<T>(result));
  if (Labels) result -= load_first(labels, columns);
  if (has_room) return store(y, result);
  for (int64_t i = 0; i < columns; ++i) y[i] = result[i];
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
