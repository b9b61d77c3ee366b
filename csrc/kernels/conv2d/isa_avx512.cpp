// AVX-512: 32 registers of 64 bytes hold 28 accumulators, 2 columns and a broadcast.
#define PROFKIT_ISA avx512
#define PROFKIT_VECTOR_BYTES 64
#define PROFKIT_TILE_ROWS 14
#define PROFKIT_TILE_VECTORS 2
#include "kernels/conv2d/cpu_direct.inl"
#include "kernels/conv2d/cpu_im2col.inl"
#include "kernels/conv2d/cpu_im2col_batched.inl"
#include "kernels/conv2d/cpu_implicit_gemm.inl"
