// Baseline of the target (SSE2 on x86-64): 16 registers, and a multiply needs one for its product.
#define PROFKIT_ISA generic
#define PROFKIT_VECTOR_BYTES 16
#define PROFKIT_TILE_ROWS 4
#define PROFKIT_TILE_VECTORS 2
#include "kernels/conv2d/cpu_direct.inl"
#include "kernels/conv2d/cpu_im2col.inl"
#include "kernels/conv2d/cpu_im2col_batched.inl"
#include "kernels/conv2d/cpu_implicit_gemm.inl"
