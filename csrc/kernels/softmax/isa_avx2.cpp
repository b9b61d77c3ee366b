// The softmax kernels of this instruction set; its vectors must be defined before the kernels are read.
#include "kernels/isa_avx2.h"

#include "kernels/softmax/cpu_vectorized.inl"
