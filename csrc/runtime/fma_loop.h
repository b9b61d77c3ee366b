// Declarations of the multiply-add loops, one per instruction set; peak.cpp picks one. No inline code here:
// isa_*.cpp include this (see the convention in CMakeLists.txt).
#pragma once

#include <stdint.h>

namespace profkit {

// Runs `iterations` of the loop and returns a number that depends on all of it. `flops_per_iteration` is set
// to the operations of one iteration (a multiply-add counts two).
using FmaLoop = double (*)(int64_t iterations, int64_t* flops_per_iteration);

#define PROFKIT_DECLARE_FMA_LOOPS(isa)                              \
  namespace isa {                                                   \
  double fma_loop_f32(int64_t iterations, int64_t* flops_per_iteration); \
  double fma_loop_f64(int64_t iterations, int64_t* flops_per_iteration); \
  }
PROFKIT_DECLARE_FMA_LOOPS(generic)
PROFKIT_DECLARE_FMA_LOOPS(avx2)
PROFKIT_DECLARE_FMA_LOOPS(avx512)
PROFKIT_DECLARE_FMA_LOOPS(neon)
#undef PROFKIT_DECLARE_FMA_LOOPS

}  // namespace profkit
