// The conv2d kernels of this instruction set; its tile must be defined before the kernels are read.
#include "kernels/isa_neon.h"

#include "kernels/conv2d/cpu_direct.inl"
#include "kernels/conv2d/cpu_im2col.inl"
#include "kernels/conv2d/cpu_im2col_batched.inl"
#include "kernels/conv2d/cpu_implicit_gemm.inl"
#include "kernels/conv2d/cpu_inside_taps.inl"
#include "kernels/conv2d/cpu_winograd.inl"
