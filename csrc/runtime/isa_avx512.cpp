// The runtime's vector code compiled for AVX-512: 32 registers.
#define PROFKIT_ISA avx512
#define PROFKIT_VECTOR_BYTES 64
#define PROFKIT_ACCUMULATORS 24
#include "runtime/cpu_fma_loop.inl"
