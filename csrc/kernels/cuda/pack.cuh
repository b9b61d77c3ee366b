// Adjacent elements that are loaded and stored by one instruction, at most 128 bits. Addresses must be
// multiples of the pack's size: launchers check that rows are aligned, otherwise they use packs of one.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

template <int kCount, class T>
__device__ __forceinline__ Pack<T, kCount> load_pack(const T* address) {
  return *reinterpret_cast<const Pack<T, kCount>*>(address);
}

template <class T, int kCount>
__device__ __forceinline__ void store_pack(T* address, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(address) = pack;
}

// The elements of 128 bits.
template <class T>
constexpr int kFullPack = 16 / static_cast<int>(sizeof(T));

}  // namespace profkit::cuda
