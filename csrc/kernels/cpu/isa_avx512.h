// AVX-512: 32 registers of 64 bytes hold 24 accumulators, 4 columns and a broadcast.
#pragma once

#define PROFKIT_ISA avx512
#define PROFKIT_VECTOR_BYTES 64
#define PROFKIT_TILE_ROWS 6
#define PROFKIT_TILE_VECTORS 4
#define PROFKIT_ACCUMULATORS 24  // of the loop that measures peaks (runtime/cpu_fma_loop.inl)
