// Tensor-core products of one warp, D = A B + C, float32 accumulators. Fragments are those of PTX
// mma.sync (lane = 4 * group + member):
//   m16n8k16, 16-bit: a[4], b[2] of two packed elements each; m16n8k8, TF32: a[4], b[2] of one each;
//   c[4]: rows group and group + 8, columns 2 * member and 2 * member + 1.
// Needs sm_80; emulated at fragment level by tests/cuda/native/simt_mma.h. Compiled for less they trap: such
// code may still be JIT-compiled for a newer device, which `supports` then accepts.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

#if defined(PROFKIT_EMULATED)
using simt::load_matrices;
using simt::mma_m16n8k16_bf16;
using simt::mma_m16n8k16_f16;
using simt::mma_m16n8k8_tf32;
using simt::to_tf32;
#else

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define PROFKIT_MMA(shape, type)                                            \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type      \
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#else
#define PROFKIT_MMA(shape, type) __trap()
#endif
using FragmentA = const uint32_t (&)[4];
using FragmentB = const uint32_t (&)[2];

__device__ __forceinline__ void mma_m16n8k16_f16(float (&c)[4], FragmentA a, FragmentB b) {
  PROFKIT_MMA("m16n8k16", "f16");
}
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&c)[4], FragmentA a, FragmentB b) {
  PROFKIT_MMA("m16n8k16", "bf16");
}
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&c)[4], FragmentA a, FragmentB b) {
  PROFKIT_MMA("m16n8k8", "tf32");
}
#undef PROFKIT_MMA

// Four 8x8 matrices of 16-bit elements from shared memory (ldmatrix): lane l brings the address of row l % 8
// of matrix l / 8, 16 bytes aligned, and gets of each matrix the pair of elements at row `group`, columns 2 *
// member and the next; with kTransposed of the transposed matrix.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(uint32_t (&values)[4], const void* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
                 : "r"(address)
                 : "memory");
  }
}

// Rounds to nearest (ties away), which the hardware expects of TF32 operands.
__device__ __forceinline__ uint32_t to_tf32(float value) {
  uint32_t bits = 0;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#else
  __trap();
#endif
  return bits;
}

#endif

}  // namespace profkit::cuda
