// Mean and squared deviations of lines, and of a second array along the deviations, as normalisations and
// their gradients need them. A line is read once: its sums are of what lies around a number near its mean, so
// that nothing cancels. Lines are joined in double.
#pragma once

#include "kernels/cpu/line.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T, int Distance, int... I>
PROFKIT_INLINE Vec<T> rotated(Vec<T> v, Lanes<I...>) {
  return PROFKIT_SHUFFLE(T, v, v, ((I + Distance) % kWidth<T>)...);
}
// By halves: few dependent steps.
template <class T, int Half = kWidth<T> / 2>
PROFKIT_INLINE double lanes_sum(Vec<T> v) {
  if constexpr (Half == 0) {
    return static_cast<double>(v[0]);
  } else {
    return lanes_sum<T, Half / 2>(v + rotated<T, Half>(v, LanesOf<T>()));
  }
}

// The first `count` lanes of a vector, the others 0.
template <class T, int... I>
PROFKIT_INLINE Vec<T> first_lanes(Vec<T> v, int64_t count, Lanes<I...>) {
  const typename VecOf<T>::mask lanes = {I...};
  return lanes < static_cast<typename VecOf<T>::lane>(count) ? v : Vec<T>{};
}

// `count` elements, at most a vector, the other lanes 0.
template <class T>
PROFKIT_INLINE Vec<T> load_some(const T* from, int64_t count) {
  return count == kWidth<T> ? load(from) : load_first(from, count);
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

  PROFKIT_INLINE void join(const LineSums& other) {
    const double all = count + other.count, off = other.mean - mean, share = other.count / all;
    // The means move: what lies along the old ones moves with them.
    const double moved = off * share;
    along += other.along - dy * moved + other.dy * (off - moved);
    squares += other.squares + off * moved * count;
    dy += other.dy;
    mean += moved;
    count = all;
  }
};

// The same lane by lane, around a number that is near the mean: of what lies around it, its squares, dy, and
// dy along it.
template <class T, bool HasDy>
struct LaneSums {
  static constexpr int kCount = HasDy ? 4 : 2;
  Vec<T> sums[kCount];

  // Lanes that are 0 in both add nothing.
  PROFKIT_INLINE void add(Vec<T> off, Vec<T> dy) {
    sums[0] += off;
    sums[1] += off * off;
    if constexpr (HasDy) {
      sums[2] += dy;
      sums[3] += dy * off;
    }
  }
  PROFKIT_INLINE void add(const LaneSums& other) {
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) sums[k] += other.sums[k];
  }
  PROFKIT_INLINE LineSums of_line(T near, double count) const {
    const double rest = lanes_sum<T>(sums[0]), moved = rest / count, around = lanes_sum<T>(sums[1]);
    LineSums found;
    found.count = count;
    found.mean = static_cast<double>(near) + moved;
    found.squares = around > rest * moved ? around - rest * moved : 0;
    if constexpr (HasDy) {
      found.dy = lanes_sum<T>(sums[2]);
      found.along = lanes_sum<T>(sums[3]) - moved * found.dy;
    }
    return found;
  }
};

// A number near the mean of a line: the mean of its first vector.
template <class T>
PROFKIT_INLINE T mean_of_beginning(const T* x, int64_t count) {
  const int64_t some = smaller(count, kWidth<T>);
  return static_cast<T>(lanes_sum<T>(load_some(x, some)) / static_cast<double>(some));
}

template <class T>
PROFKIT_INLINE Vec<T> no_second_array(int, int64_t, int64_t) {
  return Vec<T>{};
}

// Adds lines of `count` elements, one behind the other, to the lanes of each, of which there are several so
// that additions do not wait for each other. `dy` gives the second array's vector by line, offset and length.
template <class T, bool HasDy, int Lines, int Chains, class Dy>
PROFKIT_INLINE void add_lines(const T* x, int64_t count, const T (&near)[Lines], const Dy& dy,
                              LaneSums<T, HasDy> (&sums)[Lines][Chains]) {
  constexpr int64_t width = kWidth<T>;
  Vec<T> around[Lines];
#pragma GCC unroll 4
  for (int line = 0; line < Lines; ++line) around[line] = broadcast(near[line]);
  int64_t i = 0;
  for (; i + Chains * width <= count; i += Chains * width) {
#pragma GCC unroll 4
    for (int line = 0; line < Lines; ++line) {
#pragma GCC unroll 4
      for (int k = 0; k < Chains; ++k) {
        const int64_t at = i + k * width;
        sums[line][k].add(load(x + line * count + at) - around[line], dy(line, at, width));
      }
    }
  }
  for (; i < count; i += width) {
    const int64_t some = smaller(width, count - i);
#pragma GCC unroll 4
    for (int line = 0; line < Lines; ++line) {
      const Vec<T> off = load_some(x + line * count + i, some) - around[line];
      sums[line][0].add(first_lanes<T>(off, some, LanesOf<T>()), dy(line, i, some));
    }
  }
}

// Sums of lines as above.
template <class T, bool HasDy, int Lines, class Dy>
PROFKIT_INLINE void sums_of_lines(const T* x, int64_t count, const Dy& dy, LineSums (&results)[Lines]) {
  constexpr int kChains = Lines >= 4 ? 1 : 4 / Lines;
  const double length = static_cast<double>(count);
  T near[Lines];
#pragma GCC unroll 4
  for (int line = 0; line < Lines; ++line) near[line] = mean_of_beginning(x + line * count, count);
  // A beginning that lies far from the rest costs digits: then once more, around the means.
  bool is_far = true;
  for (int attempt = 0; attempt < 2 && is_far; ++attempt) {
    LaneSums<T, HasDy> sums[Lines][kChains] = {};
    add_lines<T, HasDy>(x, count, near, dy, sums);
    is_far = false;
#pragma GCC unroll 4
    for (int line = 0; line < Lines; ++line) {
#pragma GCC unroll 4
      for (int k = 1; k < kChains; ++k) sums[line][0].add(sums[line][k]);
      LineSums& found = results[line];
      found = sums[line][0].of_line(near[line], length);
      const double moved = found.mean - static_cast<double>(near[line]);
      is_far |= length * moved * moved > 4 * found.squares;
      near[line] = static_cast<T>(found.mean);
    }
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
