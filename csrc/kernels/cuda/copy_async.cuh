// Copies from global into shared memory that overlap with computation: cp.async from sm_80 on, plain copies
// before. Emulated, the target is invalid when a copy begins and filled when it is waited for, so that both a
// target that is still read and a missing wait are detected.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

#if !defined(PROFKIT_EMULATED)

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define PROFKIT_HAS_COPY_ASYNC 1
#else
#define PROFKIT_HAS_COPY_ASYNC 0
#endif

// Copies kBytes (4, 8 or 16, both sides aligned to it); where `is_inside` is false, zeros are stored and
// nothing is read.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool is_inside) {
#if PROFKIT_HAS_COPY_ASYNC
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int bytes = is_inside ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(global), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(global), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
  }
#else
  if constexpr (kBytes == 16) {
    *static_cast<int4*>(shared) = is_inside ? *static_cast<const int4*>(global) : make_int4(0, 0, 0, 0);
  } else if constexpr (kBytes == 8) {
    *static_cast<int2*>(shared) = is_inside ? *static_cast<const int2*>(global) : make_int2(0, 0);
  } else {
    *static_cast<int*>(shared) = is_inside ? *static_cast<const int*>(global) : 0;
  }
#endif
}

// Ends a group: all copies of this thread since the last one.
__device__ __forceinline__ void copy_async_commit() {
#if PROFKIT_HAS_COPY_ASYNC
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most kPending of this thread's latest groups are unfinished.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
#if PROFKIT_HAS_COPY_ASYNC
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

#else

template <int kBytes>
void copy_async(void* shared, const void* global, bool is_inside) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  simt::copy_async(shared, global, kBytes, is_inside);
}
inline void copy_async_commit() { simt::copy_async_commit(); }
template <int kPending>
void copy_async_wait() {
  simt::copy_async_wait(kPending);
}

#endif

}  // namespace profkit::cuda
