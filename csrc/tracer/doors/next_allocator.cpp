// Finds the allocator behind the allocation door and serves requests in the meantime. Nothing here may
// allocate, and until the library is relocated nothing may call out of it.
#include "tracer/doors/next_allocator.h"

#include <dlfcn.h>

#include <cerrno>

namespace profkit::tracer {

NextAllocator next_allocator;
alignas(4096) unsigned char early_memory[kEarlyBytes];

namespace {

constexpr size_t kEarlyHeaderBytes = 16;  // holds the size; keeps what follows aligned
std::atomic<size_t> early_used{0};

// Null until the dynamic loader has relocated this library: before that neither a call out of it nor a
// thread-local variable works.
void* (*const volatile lookup)(void*, const char*) = &dlsym;

thread_local bool is_looking_up = false;

template <typename Function>
void find(std::atomic<Function>* slot, const char* name) {
  slot->store(reinterpret_cast<Function>(lookup(RTLD_NEXT, name)), std::memory_order_relaxed);
}

}  // namespace

bool find_next_allocator() {
  if (lookup == nullptr || is_looking_up) return false;
  is_looking_up = true;
  const int saved_errno = errno;
  NextAllocator& next = next_allocator;
  // Threads that come here together all look up and store the same.
  find(&next.malloc_usable_size, "malloc_usable_size");
  find(&next.free, "free");
  find(&next.calloc, "calloc");
  find(&next.realloc, "realloc");
  find(&next.aligned_alloc, "aligned_alloc");
  find(&next.posix_memalign, "posix_memalign");
  find(&next.memalign, "memalign");
  find(&next.valloc, "valloc");
  find(&next.pvalloc, "pvalloc");
  find(&next.mmap, "mmap");
  find(&next.munmap, "munmap");
  find(&next.mremap, "mremap");
  find(&next.malloc, "malloc");
  errno = saved_errno;
  is_looking_up = false;
  return true;
}

void* early_allocate(size_t bytes, size_t alignment) {
  const auto fail = []() -> void* {
    if (lookup != nullptr) errno = ENOMEM;
    return nullptr;
  };
  if (bytes > kEarlyBytes || alignment > kEarlyBytes) return fail();
  if (alignment < kEarlyHeaderBytes) alignment = kEarlyHeaderBytes;
  const auto base = reinterpret_cast<uintptr_t>(early_memory);
  size_t used = early_used.load(std::memory_order_relaxed);
  uintptr_t address;
  do {
    address = (base + used + kEarlyHeaderBytes + alignment - 1) & ~(uintptr_t{alignment} - 1);
    if (address + bytes > base + kEarlyBytes) return fail();
  } while (!early_used.compare_exchange_weak(used, address + bytes - base, std::memory_order_relaxed));
  *reinterpret_cast<size_t*>(address - sizeof(size_t)) = bytes;
  return reinterpret_cast<void*>(address);
}

size_t early_size(const void* address) { return static_cast<const size_t*>(address)[-1]; }

}  // namespace profkit::tracer
