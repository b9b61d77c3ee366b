// The multiply-add loops, one per instruction set; peak.cpp picks one. No inline code here: units of
// instruction sets include this (see the convention in csrc/CMakeLists.txt).
#pragma once

#include <stdint.h>

#include "runtime/isa_namespaces.h"

namespace profkit {

// Runs `iterations` of the loop and returns a number that depends on all of it. `flops_per_iteration` is set
// to the operations of one iteration (a multiply-add counts two).
using FmaLoop = double(int64_t iterations, int64_t* flops_per_iteration);

PROFKIT_IN_EVERY_ISA(FmaLoop fma_loop_f32, fma_loop_f64;)

}  // namespace profkit
