// Declarations of the multiply-add loops, one per instruction set; peak.cpp picks one. No inline code here:
// Units of instruction sets include this (see the convention in csrc/CMakeLists.txt).
#pragma once

#include <stdint.h>

namespace profkit {

// Runs `iterations` of the loop and returns a number that depends on all of it. `flops_per_iteration` is set
// to the operations of one iteration (a multiply-add counts two).
using FmaLoop = double (*)(int64_t iterations, int64_t* flops_per_iteration);

namespace generic {
double fma_loop_f32(int64_t iterations, int64_t* flops_per_iteration);
double fma_loop_f64(int64_t iterations, int64_t* flops_per_iteration);
}  // namespace generic
namespace avx2 {
double fma_loop_f32(int64_t iterations, int64_t* flops_per_iteration);
double fma_loop_f64(int64_t iterations, int64_t* flops_per_iteration);
}  // namespace avx2
namespace avx512 {
double fma_loop_f32(int64_t iterations, int64_t* flops_per_iteration);
double fma_loop_f64(int64_t iterations, int64_t* flops_per_iteration);
}  // namespace avx512
namespace neon {
double fma_loop_f32(int64_t iterations, int64_t* flops_per_iteration);
double fma_loop_f64(int64_t iterations, int64_t* flops_per_iteration);
}  // namespace neon

}  // namespace profkit
