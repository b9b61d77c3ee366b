// The matmul kernels of this instruction set; its tile must be defined before the kernels are read.
#include "kernels/isa_avx512.h"

#include "kernels/matmul/cpu_blocked.inl"
