// NEON (aarch64): 32 registers of 16 bytes hold 16 accumulators, 2 columns and the rows.
#pragma once

#define PROFKIT_ISA neon
#define PROFKIT_VECTOR_BYTES 16
#define PROFKIT_TILE_ROWS 8
#define PROFKIT_TILE_VECTORS 2
#define PROFKIT_ACCUMULATORS 24  // of the loop that measures peaks (runtime/cpu_fma_loop.inl)
