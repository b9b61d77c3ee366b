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

// The part of a window that lies inside the image, along one direction.
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

// Even or odd elements of a and b, in an order that needs one instruction for each 16 bytes of the vectors;
// `in_order` repairs it, once for all the vectors that were joined.
#if defined(__clang__) || __GNUC__ >= 12
#define PROFKIT_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
template <class T, int Width, int Pieces = PROFKIT_VECTOR_BYTES / 16>
struct EverySecond;
template <class T>
struct EverySecond<T, 2, 1> {
  template <int O>
  static PROFKIT_INLINE Vec<T> of(Vec<T> a, Vec<T> b) {
    return PROFKIT_SHUFFLE(a, b, O, O + 2);
  }
  static PROFKIT_INLINE Vec<T> in_order(Vec<T> v) { return v; }
};
// 4 doubles are two pieces of 16 bytes, 4 floats are one.
template <class T>
struct EverySecond<T, 4, 2> {
  template <int O>
  static PROFKIT_INLINE Vec<T> of(Vec<T> a, Vec<T> b) {
    return PROFKIT_SHUFFLE(a, b, O, O + 4, O + 2, O + 6);
  }
  static PROFKIT_INLINE Vec<T> in_order(Vec<T> v) { return PROFKIT_SHUFFLE(v, v, 0, 2, 1, 3); }
};
template <class T>
struct EverySecond<T, 4, 1> {
  template <int O>
  static PROFKIT_INLINE Vec<T> of(Vec<T> a, Vec<T> b) {
    return PROFKIT_SHUFFLE(a, b, O, O + 2, O + 4, O + 6);
  }
  static PROFKIT_INLINE Vec<T> in_order(Vec<T> v) { return v; }
};
template <class T>
struct EverySecond<T, 8, 4> {
  template <int O>
  static PROFKIT_INLINE Vec<T> of(Vec<T> a, Vec<T> b) {
    return PROFKIT_SHUFFLE(a, b, O, O + 8, O + 2, O + 10, O + 4, O + 12, O + 6, O + 14);
  }
  static PROFKIT_INLINE Vec<T> in_order(Vec<T> v) { return PROFKIT_SHUFFLE(v, v, 0, 2, 4, 6, 1, 3, 5, 7); }
};
template <class T>
struct EverySecond<T, 8, 2> {
  template <int O>
  static PROFKIT_INLINE Vec<T> of(Vec<T> a, Vec<T> b) {
    return PROFKIT_SHUFFLE(a, b, O, O + 2, O + 8, O + 10, O + 4, O + 6, O + 12, O + 14);
  }
  static PROFKIT_INLINE Vec<T> in_order(Vec<T> v) { return PROFKIT_SHUFFLE(v, v, 0, 1, 4, 5, 2, 3, 6, 7); }
};
template <class T>
struct EverySecond<T, 16, 4> {
  template <int O>
  static PROFKIT_INLINE Vec<T> of(Vec<T> a, Vec<T> b) {
    return PROFKIT_SHUFFLE(a, b, O, O + 2, O + 16, O + 18, O + 4, O + 6, O + 20, O + 22, O + 8, O + 10,
                           O + 24, O + 26, O + 12, O + 14, O + 28, O + 30);
  }
  static PROFKIT_INLINE Vec<T> in_order(Vec<T> v) {
    return PROFKIT_SHUFFLE(v, v, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  }
};
#undef PROFKIT_SHUFFLE
#else
// Older GCC: its own spelling, with the indices as a vector.
template <class T, int Width>
struct EverySecond {
  template <int O>
  static PROFKIT_INLINE Vec<T> of(Vec<T> a, Vec<T> b) {
    typename VecOf<T>::mask lanes;
    for (int i = 0; i < Width; ++i) lanes[i] = 2 * i + O;
    return __builtin_shuffle(a, b, lanes);
  }
  static PROFKIT_INLINE Vec<T> in_order(Vec<T> v) { return v; }
};
#endif

}  // namespace PROFKIT_ISA
}  // namespace profkit
