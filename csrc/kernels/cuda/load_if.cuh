// Predicated loads from global memory. Written as `if (inside) value = *address`, a load becomes a branch,
// and compilers then move it down to the use of its value: nothing is left to hide its latency. Here it is
// one predicated instruction that stays before what follows it.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

#if !defined(PROFKIT_EMULATED)

// `value` stays what it was where `is_inside` is false.
__device__ __forceinline__ void load_if(float& value, const float* address, bool is_inside) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.global.f32 %0, [%1];\n}"
               : "+f"(value)
               : "l"(address), "r"(static_cast<int>(is_inside)));
}

// Four neighbours, 16 bytes aligned.
__device__ __forceinline__ void load_four_if(float (&values)[4], const float* address, bool is_inside) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n@p ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
               : "+f"(values[0]), "+f"(values[1]), "+f"(values[2]), "+f"(values[3])
               : "l"(address), "r"(static_cast<int>(is_inside)));
}

// base[offset], or zero where any of the bits is set; the kernel must not write what it reads so.
__device__ __forceinline__ void load_unless(unsigned bits, float& value, const float* base, int offset) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 address;\nsetp.eq.u32 p, %1, 0;\nmad.wide.s32 address, %3, 4, %2;\n"
      "mov.f32 %0, 0f00000000;\n@p ld.global.nc.f32 %0, [address];\n}"
      : "=f"(value)
      : "r"(bits), "l"(base), "r"(offset));
}
__device__ __forceinline__ void load_four_unless(unsigned bits, float (&values)[4], const float* base,
                                                 int offset) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 address;\nsetp.eq.u32 p, %4, 0;\nmad.wide.s32 address, %6, 4, %5;\n"
      "mov.f32 %0, 0f00000000;\nmov.f32 %1, 0f00000000;\nmov.f32 %2, 0f00000000;\nmov.f32 %3, 0f00000000;\n"
      "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [address];\n}"
      : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
      : "r"(bits), "l"(base), "r"(offset));
}

#else

inline void load_unless(unsigned bits, float& value, const float* base, int offset) {
  value = bits == 0 ? base[offset] : 0.0f;
}
inline void load_four_unless(unsigned bits, float (&values)[4], const float* base, int offset) {
  const float4 zeros = {0.0f, 0.0f, 0.0f, 0.0f};
  const float4 four = bits == 0 ? *reinterpret_cast<const float4*>(base + offset) : zeros;
  values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
}

inline void load_if(float& value, const float* address, bool is_inside) {
  if (is_inside) value = *address;
}
inline void load_four_if(float (&values)[4], const float* address, bool is_inside) {
  if (!is_inside) return;
  const float4 four = *reinterpret_cast<const float4*>(address);
  values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
}

#endif

}  // namespace profkit::cuda
