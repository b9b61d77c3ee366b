// Square roots of vectors, which compilers make one instruction of.
#pragma once

#include "kernels/cpu/simd.inl"

namespace profkit {
namespace PROFKIT_ISA {

PROFKIT_INLINE float root(float x) { return __builtin_sqrtf(x); }
PROFKIT_INLINE double root(double x) { return __builtin_sqrt(x); }

template <class T>
PROFKIT_INLINE Vec<T> roots(Vec<T> v) {
  Vec<T> result;
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i) result[i] = root(v[i]);
  return result;
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
