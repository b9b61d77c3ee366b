// Mean and squared deviations of lines and of columns, and of a second array along the deviations, as
// normalisations and their gradients need them. A block is read twice while it is in the first caches: first
// its own mean, then what lies around it, so that nothing cancels. Blocks are joined in double, or for
// columns relative to the mean of the first block.
#pragma once

#include "kernels/cpu/line.inl"

namespace profkit {
namespace PROFKIT_ISA {

// By halves: few dependent steps.
template <class T>
PROFKIT_INLINE double lanes_sum(Vec<T> v) {
  T lanes[kWidth<T>];
  store(lanes, v);
#pragma GCC unroll 4
  for (int half = kWidth<T> / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return static_cast<double>(lanes[0]);
}

// Sums over whole vectors of Sums things at once: `of` adds what the vectors at an offset have to them.
template <class T, int Sums, class Of>
PROFKIT_INLINE void line_sums(int64_t count, double (&results)[Sums], const Of& of) {
  constexpr int64_t width = kWidth<T>;
  constexpr int kAtOnce = Sums > 1 ? 2 : 4;
  Vec<T> sums[kAtOnce][Sums] = {};
  int64_t i = 0;
  for (; i + kAtOnce * width <= count; i += kAtOnce * width) {
#pragma GCC unroll 4
    for (int v = 0; v < kAtOnce; ++v) of(i + v * width, sums[v]);
  }
  for (; i + width <= count; i += width) of(i, sums[0]);
#pragma GCC unroll 4
  for (int k = 0; k < Sums; ++k) {
    Vec<T> sum = sums[0][k];
#pragma GCC unroll 4
    for (int v = 1; v < kAtOnce; ++v) sum += sums[v][k];
    results[k] = lanes_sum<T>(sum);
  }
}

// Of the elements of a line, or of several lines that belong together.
struct LineSums {
  double count = 0, mean = 0, squares = 0, dy = 0, along = 0;  // along: of dy (x - mean)

  void join(const LineSums& other) {
    const double all = count + other.count, off = other.mean - mean;
    // The means move: what lies along the old ones moves with them.
    const double mean_of_all = mean + off * other.count / all;
    along += other.along + dy * (mean - mean_of_all) + other.dy * (other.mean - mean_of_all);
    squares += other.squares + off * off * count * other.count / all;
    dy += other.dy;
    mean = mean_of_all;
    count = all;
  }
};

// A line; `dy` is null where only its own moments are wanted.
template <class T, bool HasDy>
LineSums sums_of_line(const T* x, const T* dy, int64_t count) {
  constexpr int64_t width = kWidth<T>;
  const int64_t whole = count / width * width, rest = count - whole;
  LineSums sums;
  sums.count = static_cast<double>(count);
  double total[1];
  line_sums<T>(whole, total, [=](int64_t at, Vec<T>(&to)[1]) PROFKIT_INLINED { to[0] += load(x + at); });
  if (rest) total[0] += lanes_sum<T>(load_first(x + whole, rest));
  // Near the mean only: what is left around it is summed up too, and moves it.
  const T near = static_cast<T>(total[0] / sums.count);
  const Vec<T> nearby = broadcast(near);
  double found[HasDy ? 4 : 2];
  line_sums<T>(whole, found, [=](int64_t at, Vec<T>(&to)[HasDy ? 4 : 2]) PROFKIT_INLINED {
    const Vec<T> off = load(x + at) - nearby;
    to[0] += off;
    to[1] += off * off;
    if constexpr (HasDy) {
      const Vec<T> d = load(dy + at);
      to[2] += d;
      to[3] += d * off;
    }
  });
  for (int64_t i = whole; i < count; ++i) {
    const double off = static_cast<double>(x[i] - near);
    found[0] += off;
    found[1] += off * off;
    if constexpr (HasDy) {
      found[2] += static_cast<double>(dy[i]);
      found[3] += static_cast<double>(dy[i]) * off;
    }
  }
  const double moved = found[0] / sums.count;
  sums.mean = static_cast<double>(near) + moved;
  sums.squares = found[1] - sums.count * moved * moved;
  if (sums.squares < 0) sums.squares = 0;
  if constexpr (HasDy) {
    sums.dy = found[2];
    sums.along = found[3] - moved * found[2];
  }
  return sums;
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
