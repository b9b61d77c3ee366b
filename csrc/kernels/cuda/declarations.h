// CUDA's keywords and types for a C++ compiler without the toolkit: enough to parse the kernels' headers, not
// to run them. device.cuh includes this with PROFKIT_LAYOUTS; structs.cpp needs the layouts of structs.
#pragma once

#include <math.h>
#include <stdint.h>

#define __global__
#define __host__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define PROFKIT_SHARED(type, name, extent) static type name extent
#define PROFKIT_DYNAMIC_SHARED(type, name) type* const name = nullptr

struct __half {};
struct __nv_bfloat16 {};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
};

extern const dim3 threadIdx, blockIdx, blockDim, gridDim;
float __half2float(__half);
__half __float2half_rn(float);
float __bfloat162float(__nv_bfloat16);
__nv_bfloat16 __float2bfloat16_rn(float);
void __syncthreads();
float __shfl_xor_sync(unsigned, float, int, int = 32);
float4 make_float4(float, float, float, float);
float rsqrtf(float);
int min(int, int);
int max(int, int);
template <class T>
T __ldg(const T*);
