// The runtime's vector code compiled for AVX2 with FMA: 16 registers, so 12 accumulators leave room for the constants.
#define PROFKIT_ISA avx2
#define PROFKIT_VECTOR_BYTES 32
#define PROFKIT_ACCUMULATORS 12
#include "runtime/cpu_fma_loop.inl"
