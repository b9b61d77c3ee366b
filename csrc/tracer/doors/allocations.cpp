// The heap half of the allocation door: malloc and its relatives, exported under their own names for
// LD_PRELOAD. Sizes are the requested ones. operator new and delete arrive through malloc and free. Limits: a
// release is written when the block's usable size reaches the threshold, so some releases belong to no
// recorded block; when realloc fails, its old block is recorded again with its usable size; an allocator
// preloaded behind the door with its own operator new (jemalloc, tcmalloc) keeps C++'s blocks to
// itself.
#include "tracer/doors/open.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "tracer/doors/allocation_events.h"
#include "tracer/doors/next_allocator.h"

// Not <cstdlib>: its declarations carry attributes (non-null arguments, malloc semantics) that would let the
// compiler drop checks in the definitions below.

namespace profkit::tracer {

__thread bool is_inside_allocation_door = false;

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHeapAlignment = 16;

void* fail_with(int error) {
  errno = error;
  return nullptr;
}

bool is_power_of_two(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

// Recording, or the next allocator is not known yet. Not inline: the idle path stays free of saved registers.
template <typename... Arguments>
__attribute__((noinline)) void* allocate_recorded(AllocationCall kind, size_t bytes, size_t alignment,
                                                  const std::atomic<void* (*)(Arguments...)>& slot,
                                                  Arguments... arguments) {
  const auto next = next_function(slot);
  if (next == nullptr) return early_allocate(bytes, alignment);
  if (is_passing_through()) return next(arguments...);
  const InsideAllocationDoor inside;
  void* const address = next(arguments...);
  if (address != nullptr) record_allocation(kind, address, bytes);
  return address;
}

// `bytes` and `alignment` are what the arguments for the next allocator mean.
template <typename... Arguments>
inline void* allocate(AllocationCall kind, size_t bytes, size_t alignment,
                      const std::atomic<void* (*)(Arguments...)>& slot, Arguments... arguments) {
  const auto next = slot.load(std::memory_order_relaxed);
  if (__builtin_expect(next != nullptr && is_idle(), 1)) return next(arguments...);
  return allocate_recorded(kind, bytes, alignment, slot, arguments...);
}

inline size_t usable_size(void* address) {
  const auto measure = next_function(next_allocator.malloc_usable_size);
  return measure == nullptr ? SIZE_MAX : measure(address);
}

// Whether a release of this block is written: it may have been recorded when it was allocated.
inline bool may_be_recorded(void* address) {
  const Options& wanted = options();
  return wanted.allocations && usable_size(address) >= wanted.allocation_threshold;
}

void record_release(AllocationCall kind, const void* address) {
  with_recorder([=](ThreadRecorder& recorder, uint64_t) { recorder.release(kind, address); });
}

__attribute__((noinline)) void free_recorded(void* address, void (*next)(void*)) {
  const InsideAllocationDoor inside;
  if (may_be_recorded(address)) record_release(AllocationCall::free, address);
  next(address);
}

// Out of the early memory, which is never freed. Byte by byte and volatile: memcpy may not be callable.
void* move_from_early(void* old_address, size_t bytes) {
  if (bytes == 0) return nullptr;  // as the C library's realloc: the block is freed
  void* const address =
      allocate(AllocationCall::realloc, bytes, kHeapAlignment, next_allocator.malloc, bytes);
  if (address == nullptr) return nullptr;
  const size_t count = early_size(old_address) < bytes ? early_size(old_address) : bytes;
  for (size_t i = 0; i < count; ++i)
    static_cast<volatile unsigned char*>(address)[i] = static_cast<const unsigned char*>(old_address)[i];
  return address;
}

__attribute__((noinline)) void* reallocate_recorded(void* old_address, size_t bytes,
                                                    void* (*next)(void*, size_t)) {
  const InsideAllocationDoor inside;
  // More than this cannot succeed: the old block stays, and nothing has to be undone.
  if (bytes > PTRDIFF_MAX) return next(old_address, bytes);
  const bool was_recorded = old_address != nullptr && may_be_recorded(old_address);
  const size_t old_bytes = was_recorded ? usable_size(old_address) : 0;
  if (was_recorded) record_release(AllocationCall::realloc, old_address);
  void* const address = next(old_address, bytes);
  if (address != nullptr)
    record_allocation(AllocationCall::realloc, address, bytes);
  else if (was_recorded && bytes != 0)  // realloc(p, 0) has freed p
    record_allocation(AllocationCall::realloc, old_address, old_bytes);
  return address;
}

// --- Is it our malloc that the program calls?
// A probe decides. Addresses do not: in an executable at a fixed address, &malloc is its own jump to malloc.
void* (*probed_malloc)(size_t) = nullptr;
thread_local bool is_probing = false;
bool is_interposed = false;

void* answer_probe(size_t bytes) {
  if (is_probing) is_interposed = true;
  return probed_malloc(bytes);
}

}  // namespace
}  // namespace profkit::tracer

using namespace profkit::tracer;

PROFKIT_EXPORT void* malloc(size_t bytes) noexcept {
  return allocate(AllocationCall::malloc, bytes, kHeapAlignment, next_allocator.malloc, bytes);
}

PROFKIT_EXPORT void* calloc(size_t count, size_t item_bytes) noexcept {
  size_t bytes = 0;
  // The next calloc refuses a product that overflows, and so does the early memory.
  if (__builtin_mul_overflow(count, item_bytes, &bytes)) bytes = SIZE_MAX;
  return allocate(AllocationCall::calloc, bytes, kHeapAlignment, next_allocator.calloc, count, item_bytes);
}

PROFKIT_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return allocate(AllocationCall::aligned_alloc, bytes, alignment, next_allocator.aligned_alloc, alignment,
                  bytes);
}

PROFKIT_EXPORT void* memalign(size_t alignment, size_t bytes) noexcept {
  return allocate(AllocationCall::memalign, bytes, alignment, next_allocator.memalign, alignment, bytes);
}

// valloc and pvalloc are memalign with the alignment of a page, and are recorded as that.
PROFKIT_EXPORT void* valloc(size_t bytes) noexcept {
  return allocate(AllocationCall::memalign, bytes, kPageBytes, next_allocator.valloc, bytes);
}

PROFKIT_EXPORT void* pvalloc(size_t bytes) noexcept {
  return allocate(AllocationCall::memalign, bytes, kPageBytes, next_allocator.pvalloc, bytes);
}

PROFKIT_EXPORT int posix_memalign(void** result, size_t alignment, size_t bytes) noexcept {
  const auto next = next_function(next_allocator.posix_memalign);
  if (next == nullptr) {
    if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
    void* const address = early_allocate(bytes, alignment);
    if (address == nullptr) return ENOMEM;
    *result = address;
    return 0;
  }
  if (is_passing_through()) return next(result, alignment, bytes);
  const InsideAllocationDoor inside;
  const int status = next(result, alignment, bytes);
  if (status == 0) record_allocation(AllocationCall::posix_memalign, *result, bytes);
  return status;
}

PROFKIT_EXPORT void* realloc(void* old_address, size_t bytes) noexcept {
  const auto next = next_function(next_allocator.realloc);
  if (__builtin_expect(old_address != nullptr && is_early(old_address), 0))
    return move_from_early(old_address, bytes);
  if (__builtin_expect(next == nullptr, 0)) {
    // A block of an allocator that cannot be found yet: there is none.
    return old_address == nullptr ? early_allocate(bytes, kHeapAlignment) : fail_with(ENOMEM);
  }
  if (is_passing_through()) return next(old_address, bytes);
  return reallocate_recorded(old_address, bytes, next);
}

// Through the program's own realloc, which need not be ours (an allocator inside the executable).
PROFKIT_EXPORT void* reallocarray(void* old_address, size_t count, size_t item_bytes) noexcept {
  static void* (*const volatile program_realloc)(void*, size_t) = &realloc;
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, item_bytes, &bytes)) return fail_with(ENOMEM);
  return program_realloc(old_address, bytes);
}

PROFKIT_EXPORT void free(void* address) noexcept {
  if (address == nullptr || is_early(address)) return;
  const auto next = next_function(next_allocator.free);
  if (__builtin_expect(next == nullptr, 0)) return;  // no allocator to return it to: during the lookup
  if (is_passing_through()) return next(address);
  free_recorded(address, next);
}

namespace profkit::tracer {

namespace {

// First of the library's constructors, before the recorder's, which uses the result.
__attribute__((constructor(101))) void probe_malloc() {
  void* (*const volatile program_malloc)(size_t) = &malloc;
  void (*const volatile program_free)(void*) = &free;
  probed_malloc = next_function(next_allocator.malloc);
  if (probed_malloc == nullptr) return;
  is_probing = true;
  next_allocator.malloc.store(&answer_probe, std::memory_order_release);
  program_free(program_malloc(1));
  next_allocator.malloc.store(probed_malloc, std::memory_order_release);
  is_probing = false;
}

}  // namespace

bool allocations_are_interposed() { return is_interposed; }

}  // namespace profkit::tracer
