// AVX2 with FMA: 16 registers of 32 bytes hold 12 accumulators, 2 columns and a broadcast.
#define PROFKIT_ISA avx2
#define PROFKIT_VECTOR_BYTES 32
#define PROFKIT_TILE_ROWS 6
#define PROFKIT_TILE_VECTORS 2
#include "kernels/conv2d/cpu_direct.inl"
#include "kernels/conv2d/cpu_im2col.inl"
#include "kernels/conv2d/cpu_im2col_batched.inl"
#include "kernels/conv2d/cpu_implicit_gemm.inl"
