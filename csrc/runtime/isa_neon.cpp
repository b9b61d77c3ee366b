// The runtime's vector code compiled for NEON: up to 4 pipes of latency 4, hence 24 of the 32 registers.
#define PROFKIT_ISA neon
#define PROFKIT_VECTOR_BYTES 16
#define PROFKIT_ACCUMULATORS 24
#include "runtime/cpu_fma_loop.inl"
