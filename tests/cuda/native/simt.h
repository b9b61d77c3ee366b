// The host SIMT layer: CUDA's device language for a C++ compiler. Every thread of a block is a fiber; one
// block runs at a time on one OS thread. Barriers and warp operations are meetings that the scheduler
// (simt.cpp) completes, and what a GPU leaves undefined is an error with the place in it: divergent barriers,
// masks that name exited lanes, deadlocks. Shared memory is fresh for each block and filled with NaN.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define __align__(bytes) alignas(bytes)
#define __shared__ static_assert(false, "use PROFKIT_SHARED: the emulator must see every shared array");
#define PROFKIT_SHARED(type, name, extent) \
  typedef type name##_in_shared extent;    \
  static char name##_place;                \
  name##_in_shared& name =                 \
      *static_cast<name##_in_shared*>(simt::shared(&name##_place, sizeof(name##_in_shared)))
#define PROFKIT_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(simt::dynamic_shared())

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
#define PROFKIT_VECTOR2(name, type, alignment) \
  struct alignas(alignment) name {             \
    type x, y;                                 \
  };                                           \
  inline name make_##name(type x, type y) { return name{x, y}; }
#define PROFKIT_VECTOR4(name, type) \
  struct alignas(16) name {         \
    type x, y, z, w;                \
  };                                \
  inline name make_##name(type x, type y, type z, type w) { return name{x, y, z, w}; }
PROFKIT_VECTOR2(float2, float, 8)
PROFKIT_VECTOR2(int2, int, 8)
PROFKIT_VECTOR4(float4, float)
PROFKIT_VECTOR4(int4, int)

namespace simt {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Place {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
extern const Place* current;  // of the fiber that runs

// Each call is a meeting of lanes; `file` and `line` tell one meeting from another.
struct Site {
  const char* file;
  int line;
};

enum class WarpOperation { sync, shuffle, collective };

// Ends the launch: what a thread throws cannot leave its stack.
[[noreturn]] void fail(const std::string& message);
void* shared(const void* place, size_t bytes);
void* dynamic_shared();
void barrier(Site site);
void sync_warp(unsigned mask, Site site);
// Exchanges up to 8 bytes; `source_lane` may be outside the mask only where the caller ignores the result.
uint64_t shuffle(unsigned mask, uint64_t value, int source_lane, Site site);
// All 32 lanes bring `bytes` at `mine`; once all are there `together` is called once with the 32 pointers,
// and may write back through them.
void collective(void* mine, void (*together)(void* const* lanes), Site site);
void copy_async(void* shared, const void* global, int bytes, bool is_inside);
void copy_async_commit();
void copy_async_wait(int pending);

inline int lane() {
  const Place& place = *current;
  const unsigned linear =
      place.thread.x + place.block_size.x * (place.thread.y + place.block_size.y * place.thread.z);
  return static_cast<int>(linear % 32);
}

// Lanes outside the segment of `width` keep their own value, as CUDA defines: earlier segments can be read,
// later ones cannot.
template <class T>
T shuffle_xor(unsigned mask, T value, int bits, int width, Site site) {
  static_assert(sizeof(T) <= 8);
  const int me = lane(), end = me / width * width + width, from = me ^ bits;
  uint64_t exchanged = 0;
  std::memcpy(&exchanged, &value, sizeof(T));
  exchanged = shuffle(mask, exchanged, from < end ? from : me, site);
  std::memcpy(&value, &exchanged, sizeof(T));
  return value;
}

}  // namespace simt

#define threadIdx (simt::current->thread)
#define blockIdx (simt::current->block)
#define blockDim (simt::current->block_size)
#define gridDim (simt::current->grid_size)
#define warpSize 32
#define PROFKIT_SITE \
  simt::Site { __FILE__, __LINE__ }
#define __syncthreads() simt::barrier(PROFKIT_SITE)
#define __syncwarp(...) simt::sync_warp(simt::mask_or_full(__VA_ARGS__), PROFKIT_SITE)
namespace simt {
constexpr unsigned mask_or_full(unsigned mask = 0xffffffffu) { return mask; }
}  // namespace simt
// The width is written out in every call: a macro with a default would hide a wrong one.
#define __shfl_xor_sync(mask, value, bits, width) simt::shuffle_xor(mask, value, bits, width, PROFKIT_SITE)

// Atomic also for ThreadSanitizer: a plain access beside an atomic one is a race on a GPU too.
inline float atomicAdd(float* address, float value) {
  auto* const bits = reinterpret_cast<uint32_t*>(address);
  uint32_t old = __atomic_load_n(bits, __ATOMIC_RELAXED), next;
  float sum;
  do {
    std::memcpy(&sum, &old, 4);
    sum += value;
    std::memcpy(&next, &sum, 4);
  } while (!__atomic_compare_exchange_n(bits, &old, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  std::memcpy(&sum, &old, 4);
  return sum;
}

template <class T>
T __ldg(const T* address) {
  return *address;
}
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }
inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }

#include "simt_half.h"
#include "simt_mma.h"
