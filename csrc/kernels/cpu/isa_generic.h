// Baseline of the target (SSE2 on x86-64): 16 registers, and a multiply needs one for its product.
#pragma once

#define PROFKIT_ISA generic
#define PROFKIT_VECTOR_BYTES 16
#define PROFKIT_TILE_ROWS 4
#define PROFKIT_TILE_VECTORS 2
#define PROFKIT_ACCUMULATORS 12  // of the loop that measures peaks (runtime/cpu_fma_loop.inl)
