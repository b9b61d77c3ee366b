// NEON (aarch64): 32 registers of 16 bytes hold 16 accumulators, 2 columns and the rows.
#define PROFKIT_ISA neon
#define PROFKIT_VECTOR_BYTES 16
#define PROFKIT_TILE_ROWS 8
#define PROFKIT_TILE_VECTORS 2
#include "kernels/conv2d/cpu_direct.inl"
#include "kernels/conv2d/cpu_im2col.inl"
#include "kernels/conv2d/cpu_im2col_batched.inl"
#include "kernels/conv2d/cpu_implicit_gemm.inl"
