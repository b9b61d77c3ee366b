// The clock of all records: the processor's time stamp counter where it is invariant, CLOCK_MONOTONIC (in ns)
// otherwise. Chosen once per process; sync points relate ticks to CLOCK_MONOTONIC.
#pragma once

#include <time.h>

#include <cstdint>

#include "tracer/file/format.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace profkit::tracer {

extern bool clock_is_tsc;

inline int64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline uint64_t read_ticks() {
#if defined(__x86_64__)
  // Without a fence: one costs as much as the reading, and out-of-order execution moves it by a few ns only.
  if (clock_is_tsc) return __rdtsc();
#endif
  return static_cast<uint64_t>(monotonic_ns());
}

// Sets clock_is_tsc. PROFKIT_TRACE_CLOCK=tsc|monotonic overrides what the processor and the kernel say.
void choose_clock();

// A pair of ticks and monotonic time; the best of a few tries.
ClockEntry take_sync_point();

}  // namespace profkit::tracer
