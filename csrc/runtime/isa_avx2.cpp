// The runtime's vector code compiled for AVX2 with FMA: of 16 registers, 12 accumulate and 2 hold constants.
#define PROFKIT_ISA avx2
#define PROFKIT_VECTOR_BYTES 32
#define PROFKIT_ACCUMULATORS 12
#include "runtime/cpu_fma_loop.inl"
