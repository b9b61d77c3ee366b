// The reductions of pooling kernels, the part of a window inside the image, and vectors of every second
// element. A maximum has two forms: the exact one propagates NaN, as the frameworks do; the plain one is a
// single instruction but loses NaN, which a sum of all values detects.
#pragma once

#include "kernels/cpu/work.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct ExactLargest {
  static constexpr bool is_watched = false;
  static PROFKIT_INLINE T start() { return -static_cast<T>(__builtin_inf()); }
  static PROFKIT_INLINE Vec<T> join(Vec<T> best, Vec<T> value) {
    return (value > best) | (value != value) ? value : best;
  }
};

template <class T>
struct Largest {
  static constexpr bool is_watched = true;
  using Exact = ExactLargest<T>;
  static PROFKIT_INLINE T start() { return Exact::start(); }
  static PROFKIT_INLINE Vec<T> join(Vec<T> best, Vec<T> value) { return value > best ? value : best; }
};

template <class T>
struct Sum {
  static constexpr bool is_watched = false;
  static PROFKIT_INLINE T start() { return 0; }
  static PROFKIT_INLINE Vec<T> join(Vec<T> sum, Vec<T> value) { return sum + value; }
};

// A NaN in any lane makes the sum NaN; so do infinities of both signs, which costs a second, exact run but no
// wrong result.
template <class T>
PROFKIT_INLINE bool may_hold_nan(Vec<T> watch) {
  T sum = 0;
  for (int i = 0; i < kWidth<T>; ++i) sum += watch[i];
  return sum != sum;
}

// The part of a window that is inside the image, along one direction.
struct Inside {
  int64_t begin, end;
  PROFKIT_INLINE Inside(int64_t place, int64_t stride, int64_t pad, int64_t kernel, int64_t extent)
      : begin(larger(place * stride - pad, 0)), end(smaller(place * stride - pad + kernel, extent)) {}
  PROFKIT_INLINE int64_t count() const { return end - begin; }
};

template <class T>
PROFKIT_INLINE Vec<T> load_some(const T* from, int64_t count, T rest) {
  Vec<T> values = broadcast(rest);
  for (int64_t i = 0; i < count; ++i) values[i] = from[i];
  return values;
}
template <class T>
PROFKIT_INLINE void store_some(T* to, Vec<T> values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = values[i];
}

// Even or odd elements of a and b, in an order that needs one instruction for each 16 bytes of the vectors:
// of each piece of 16 bytes those of a, then those of b. `in_order` repairs it, once for all the vectors that
// were joined.
template <class T>
struct EverySecond {
  static constexpr int kPiece = 16 / static_cast<int>(sizeof(T)), kHalf = kPiece / 2, kSide = kWidth<T> / 2;
  static constexpr int lane(int i, int odd) {
    return i / kPiece * kPiece + i % kHalf * 2 + odd + i % kPiece / kHalf * kWidth<T>;
  }
  static constexpr int lane_in_order(int i) {
    return i % kSide / kHalf * kPiece + i / kSide * kHalf + i % kHalf;
  }

  template <int Odd, int... I>
  static PROFKIT_INLINE Vec<T> of(Vec<T> a, Vec<T> b, Lanes<I...>) {
    return PROFKIT_SHUFFLE(T, a, b, lane(I, Odd)...);
  }
  template <int... I>
  static PROFKIT_INLINE Vec<T> in_order(Vec<T> v, Lanes<I...>) {
    return PROFKIT_SHUFFLE(T, v, v, lane_in_order(I)...);
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
