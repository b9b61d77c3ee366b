// The allocator behind the allocation door: the functions that the program would have called without us, and
// the little memory that serves calls which come before those can be found.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace profkit::tracer {

// Hidden already where they are declared: before its relocation the library can only reach what it does not
// have to look up.
#define PROFKIT_HIDDEN __attribute__((visibility("hidden")))

// Filled once; every slot holds nullptr until then, and afterwards if the system has no such function.
struct NextAllocator {
  std::atomic<void* (*)(size_t)> malloc{nullptr};
  std::atomic<void* (*)(size_t, size_t)> calloc{nullptr};
  std::atomic<void* (*)(void*, size_t)> realloc{nullptr};
  std::atomic<void* (*)(size_t, size_t)> aligned_alloc{nullptr};
  std::atomic<int (*)(void**, size_t, size_t)> posix_memalign{nullptr};
  std::atomic<void* (*)(size_t, size_t)> memalign{nullptr};
  std::atomic<void* (*)(size_t)> valloc{nullptr};
  std::atomic<void* (*)(size_t)> pvalloc{nullptr};
  std::atomic<void (*)(void*)> free{nullptr};
  std::atomic<size_t (*)(void*)> malloc_usable_size{nullptr};
  std::atomic<void* (*)(void*, size_t, int, int, int, off_t)> mmap{nullptr};
  std::atomic<int (*)(void*, size_t)> munmap{nullptr};
  std::atomic<void* (*)(void*, size_t, size_t, int, ...)> mremap{nullptr};
};
extern NextAllocator next_allocator PROFKIT_HIDDEN;

// Fills the table. False when it cannot be filled now: the dynamic loader has not relocated this library yet
// (an ifunc resolver of another library allocates), or this very lookup allocates.
PROFKIT_HIDDEN bool find_next_allocator();

// The function of a slot, looked up if need be; nullptr when there is none (now).
template <typename Function>
inline Function next_function(const std::atomic<Function>& slot) {
  Function function = slot.load(std::memory_order_relaxed);
  if (__builtin_expect(function == nullptr, 0) && find_next_allocator())
    function = slot.load(std::memory_order_relaxed);
  return function;
}

// Memory for calls during the lookup: zeroed, never freed. nullptr and ENOMEM when it is used up.
constexpr size_t kEarlyBytes = size_t{256} << 10;
extern unsigned char early_memory[kEarlyBytes] PROFKIT_HIDDEN;
PROFKIT_HIDDEN void* early_allocate(size_t bytes, size_t alignment);
PROFKIT_HIDDEN size_t early_size(const void* address);

inline bool is_early(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(early_memory) < kEarlyBytes;
}

}  // namespace profkit::tracer
