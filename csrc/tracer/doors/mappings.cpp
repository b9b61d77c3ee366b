// The mapping half of the allocation door: mmap, munmap and mremap, exported under their own names. Recorded:
// anonymous mappings that can be accessed. Not recorded: mappings of files; address space that is only
// reserved (PROT_NONE), hence also what mprotect later makes of it; mappings that the C library makes inside
// itself (its heap, whose blocks malloc records, and thread stacks), which never come through here. Limit:
// mremap does not show what it moves, so a mapping of a file counts as memory after its mremap.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "tracer/doors/allocation_events.h"
#include "tracer/doors/next_allocator.h"

namespace profkit::tracer {
namespace {

constexpr int kKeepOldMapping = 4;  // MREMAP_DONTUNMAP, which older headers lack
constexpr size_t kPageBytes = 4096;

// Before the lookup, and during it, the system call itself serves.
void* next_mmap(void* hint, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (const auto next = next_function(next_allocator.mmap))
    return next(hint, bytes, protection, flags, file, offset);
  return reinterpret_cast<void*>(syscall(SYS_mmap, hint, bytes, protection, flags, file, offset));
}

int next_munmap(void* address, size_t bytes) {
  if (const auto next = next_function(next_allocator.munmap)) return next(address, bytes);
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}

void* next_mremap(void* old_address, size_t old_bytes, size_t bytes, int flags, void* new_address) {
  if (const auto next = next_function(next_allocator.mremap))
    return next(old_address, old_bytes, bytes, flags, new_address);
  return reinterpret_cast<void*>(syscall(SYS_mremap, old_address, old_bytes, bytes, flags, new_address));
}

bool is_on_page(const void* address) { return reinterpret_cast<uintptr_t>(address) % kPageBytes == 0; }

void record_unmap(const void* address, uint64_t bytes) {
  with_recorder([=](ThreadRecorder& recorder, uint64_t) { recorder.unmap(address, bytes); });
}

void* map_recorded(void* hint, size_t bytes, int protection, int flags, int file, off_t offset) {
  const InsideAllocationDoor inside;
  // A mapping at a fixed address takes the place of what is there, of whatever kind.
  if ((flags & MAP_FIXED) != 0 && is_on_page(hint) && bytes != 0) record_unmap(hint, bytes);
  void* const address = next_mmap(hint, bytes, protection, flags, file, offset);
  if (address != MAP_FAILED && (flags & MAP_ANONYMOUS) != 0 && protection != PROT_NONE)
    record_allocation(AllocationCall::mmap, address, bytes);
  return address;
}

int unmap_recorded(void* address, size_t bytes) {
  const InsideAllocationDoor inside;
  if (!is_on_page(address) || bytes == 0) return next_munmap(address, bytes);  // refused by the kernel
  record_unmap(address, bytes);
  const int status = next_munmap(address, bytes);
  // What is left to fail is a split beyond the limit of mappings: the memory is still there.
  if (status != 0) record_allocation(AllocationCall::mmap, address, bytes);
  return status;
}

void* remap_recorded(void* old_address, size_t old_bytes, size_t bytes, int flags, void* new_address) {
  const InsideAllocationDoor inside;
  const bool gives_up_old = old_bytes != 0 && (flags & kKeepOldMapping) == 0 && is_on_page(old_address);
  if (gives_up_old) record_unmap(old_address, old_bytes);
  if ((flags & MREMAP_FIXED) != 0 && is_on_page(new_address) && bytes != 0) record_unmap(new_address, bytes);
  void* const address = next_mremap(old_address, old_bytes, bytes, flags, new_address);
  if (address != MAP_FAILED)
    record_allocation(AllocationCall::mremap, address, bytes);
  else if (gives_up_old)
    record_allocation(AllocationCall::mremap, old_address, old_bytes);
  return address;
}

}  // namespace
}  // namespace profkit::tracer

PROFKIT_EXPORT void* mmap(void* hint, size_t bytes, int protection, int flags, int file,
                          off_t offset) noexcept {
  using namespace profkit::tracer;
  if (is_passing_through()) return next_mmap(hint, bytes, protection, flags, file, offset);
  return map_recorded(hint, bytes, protection, flags, file, offset);
}

PROFKIT_EXPORT void* mmap64(void* hint, size_t bytes, int protection, int flags, int file,
                            off64_t offset) noexcept {
  using namespace profkit::tracer;
  static_assert(sizeof(off_t) == sizeof(off64_t), "mmap64 is mmap");
  if (is_passing_through()) return next_mmap(hint, bytes, protection, flags, file, offset);
  return map_recorded(hint, bytes, protection, flags, file, offset);
}

PROFKIT_EXPORT int munmap(void* address, size_t bytes) noexcept {
  using namespace profkit::tracer;
  if (is_passing_through()) return next_munmap(address, bytes);
  return unmap_recorded(address, bytes);
}

PROFKIT_EXPORT void* mremap(void* old_address, size_t old_bytes, size_t bytes, int flags, ...) noexcept {
  using namespace profkit::tracer;
  void* new_address = nullptr;
  if ((flags & (MREMAP_FIXED | kKeepOldMapping)) != 0) {
    va_list rest;
    va_start(rest, flags);
    new_address = va_arg(rest, void*);
    va_end(rest);
  }
  if (is_passing_through()) return next_mremap(old_address, old_bytes, bytes, flags, new_address);
  return remap_recorded(old_address, old_bytes, bytes, flags, new_address);
}
