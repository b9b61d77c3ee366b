// Which instruction sets the processor supports, whatever was compiled: used at run time (cpu_features.cpp)
// and when the build selects its sets (print_best_simd.cpp).
#pragma once

#include "runtime/cpu_features.h"

namespace profkit {

inline bool processor_runs(Simd level) {
  switch (level) {
    case Simd::generic:
      return true;
#if defined(__x86_64__)
    case Simd::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Simd::avx512:
      return processor_runs(Simd::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512bw");
#elif defined(__aarch64__)
    case Simd::neon:  // the baseline
      return true;
#endif
    default:
      return false;
  }
}

}  // namespace profkit
