// Copying and zeroing one row of an image: mostly short, and many.
#pragma once

#include "kernels/cpu/simd.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Compilers turn copy loops into calls of memcpy or `rep movs`, which cost more than the short rows they
// would copy.
PROFKIT_INLINE void keep_loop() { asm volatile("" ::: "memory"); }

template <class T>
PROFKIT_INLINE void copy_row(T* to, const T* from, int64_t count) {
  constexpr int64_t width = kWidth<T>;
  if (count < width) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = from[i];
      keep_loop();
    }
    return;
  }
  for (int64_t i = 0; i + width <= count; i += width) {
    store(to + i, load(from + i));
    keep_loop();
  }
  store(to + count - width, load(from + count - width));
}
template <class T>
PROFKIT_INLINE void zero_row(T* to, int64_t count) {
  constexpr int64_t width = kWidth<T>;
  int64_t i = 0;
  for (; i + width <= count; i += width) {
    store(to + i, Vec<T>{});
    keep_loop();
  }
  for (; i < count; ++i) {
    to[i] = 0;
    keep_loop();
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
