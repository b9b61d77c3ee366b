// The pool2d kernels of this instruction set; its vectors must be defined before the kernels are read.
#include "kernels/isa_avx512.h"

#include "kernels/pool2d/cpu_separable.inl"
