// AVX2 with FMA: 16 registers of 32 bytes hold 12 accumulators, 2 columns and a broadcast.
#pragma once

#define PROFKIT_ISA avx2
#define PROFKIT_VECTOR_BYTES 32
#define PROFKIT_TILE_ROWS 6
#define PROFKIT_TILE_VECTORS 2
#define PROFKIT_ACCUMULATORS 12  // of the loop that measures peaks (runtime/cpu_fma_loop.inl)
