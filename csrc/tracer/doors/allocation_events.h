// How the functions of the allocation door write events: the guard against their own calls, the threshold,
// the order. Inline, because all of it is on the path of every malloc.
#pragma once

#include <cerrno>

#include "tracer/core/export.h"
#include "tracer/core/recorder.h"

namespace profkit::tracer {

// True while a call of this door runs on the thread. What the next allocator or the recorder requests
// meanwhile (an allocator's mmap, the recorder's chunks) belongs to that call and is not recorded again.
// __thread: a C++ thread_local of another file is reached through a function.
extern __thread bool is_inside_allocation_door __attribute__((visibility("hidden")));

inline bool is_idle() { return recording.load(std::memory_order_relaxed) == 0; }

inline bool is_passing_through() { return __builtin_expect(is_idle(), 1) || is_inside_allocation_door; }

class InsideAllocationDoor {
 public:
  InsideAllocationDoor() { is_inside_allocation_door = true; }
  ~InsideAllocationDoor() { is_inside_allocation_door = false; }
  InsideAllocationDoor(const InsideAllocationDoor&) = delete;
  InsideAllocationDoor& operator=(const InsideAllocationDoor&) = delete;
};

// Calls `write` with this thread's recorder, if allocations are recorded now; errno stays as it was.
template <typename Write>
inline void with_recorder(Write write) {
  const Options& wanted = options();
  if (!wanted.allocations) return;
  const int saved_errno = errno;
  if (ThreadRecorder* recorder = this_thread()) write(*recorder, wanted.allocation_threshold);
  errno = saved_errno;
}

// Comes after the memory was obtained, as a release comes before it is freed: otherwise another thread
// could get the same address and write an event with an earlier time.
inline void record_allocation(AllocationCall call, const void* address, uint64_t bytes) {
  with_recorder([=](ThreadRecorder& recorder, uint64_t threshold) {
    if (bytes >= threshold)
      recorder.allocate(call, address, bytes);
    else
      recorder.count_small_allocation(bytes);
  });
}

}  // namespace profkit::tracer
