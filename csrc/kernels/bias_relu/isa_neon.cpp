// The bias_relu kernels of this instruction set; its vectors must be defined before the kernels are read.
#include "kernels/isa_neon.h"

#include "kernels/bias_relu/cpu_vectorized.inl"
