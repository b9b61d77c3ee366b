// The softmax kernels of this instruction set; its vectors must be defined before the kernels are read.
#include "kernels/isa_generic.h"

#include "kernels/softmax/cpu_vectorized.inl"
