// The first direction of pooling, in either layout: rows of memory joined straight down. Enters one of the
// joins.
#pragma once

#include "kernels/pool2d/cpu/joins.inl"

namespace profkit {
namespace PROFKIT_ISA {

// One vector of `Count` rows joined (0: of `count`).
template <class T, class How, int Count>
PROFKIT_INLINE Vec<T> join_down(const T* rows, int64_t pitch, int64_t count, Vec<T>& watch) {
  Vec<T> joined = load(rows), sum = joined;
#pragma GCC unroll 4
  for (int64_t i = 1; i < (Count ? Count : count); ++i) {
    const Vec<T> value = load(rows + i * pitch);
    joined = How::join(joined, value);
    if (How::is_watched) sum += value;
  }
  if (How::is_watched) watch += sum;
  return joined;
}

// Rows of at least a vector: the last one overlaps the one before, the same rows give the same result.
template <class T, class How, int Count>
PROFKIT_INLINE void join_long_rows(const T* rows, int64_t pitch, int64_t count, int64_t length, T* result,
                                   Vec<T> (&watch)[2]) {
  constexpr int64_t width = kWidth<T>;
  int64_t x = 0;
  for (; x + 2 * width <= length; x += 2 * width) {
    const Vec<T> first = join_down<T, How, Count>(rows + x, pitch, count, watch[0]);
    const Vec<T> second = join_down<T, How, Count>(rows + x + width, pitch, count, watch[1]);
    store(result + x, first);
    store(result + x + width, second);
  }
  if (x + width <= length) {
    store(result + x, join_down<T, How, Count>(rows + x, pitch, count, watch[0]));
    x += width;
  }
  if (x == length) return;
  x = length - width;
  store(result + x, join_down<T, How, Count>(rows + x, pitch, count, watch[1]));
}

// Rows that are shorter than a vector: what is read beyond them takes no part, and what is written beyond
// them is padding or a row that comes later. `end` is where the memory ends that may be read.
template <class T, class How>
PROFKIT_INLINE void join_short_rows(const T* rows, int64_t pitch, int64_t count, int64_t length, const T* end,
                                    T* result, Vec<T> (&watch)[2]) {
  typename VecOf<T>::mask lanes = {};
  for (int i = 0; i < kWidth<T>; ++i) lanes[i] = i < length ? -1 : 0;
  Vec<T> joined = broadcast(How::start());
  if (end - (rows + (count - 1) * pitch) >= kWidth<T>) {
    joined = join_down<T, How, 0>(rows, pitch, count, watch[0]);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const Vec<T> value = load_some(rows + i * pitch, length, How::start());
      if (How::is_watched) watch[0] += lanes ? value : Vec<T>{};
      joined = How::join(joined, value);
    }
  }
  store(result, lanes ? joined : broadcast(How::start()));
}

// `length` elements of `count` rows, `pitch` apart.
template <class T, class How>
PROFKIT_INLINE void join_rows(const T* rows, int64_t pitch, int64_t count, int64_t length, const T* end,
                              T* result, Vec<T> (&watch)[2]) {
  if (length < kWidth<T>) return join_short_rows<T, How>(rows, pitch, count, length, end, result, watch);
  if (count == 2) return join_long_rows<T, How, 2>(rows, pitch, 2, length, result, watch);
  if (count == 3) return join_long_rows<T, How, 3>(rows, pitch, 3, length, result, watch);
  join_long_rows<T, How, 0>(rows, pitch, count, length, result, watch);
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
