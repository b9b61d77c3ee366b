// The runtime's vector code compiled for the compiler's baseline: 16-byte vectors, 16 registers.
#define PROFKIT_ISA generic
#define PROFKIT_VECTOR_BYTES 16
#define PROFKIT_ACCUMULATORS 12
#include "runtime/cpu_fma_loop.inl"
