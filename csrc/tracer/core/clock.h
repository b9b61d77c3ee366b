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

// A pair of what read(&ticks) gives and monotonic time, the best of a few tries; false when read() fails.
template <class Read>
bool take_pair(int tries, ClockEntry& best, Read read) {
  for (int i = 0; i < tries; ++i) {
    uint64_t ticks = 0;
    const int64_t before = monotonic_ns();
    if (!read(&ticks)) return false;
    const int64_t after = monotonic_ns();
    const int64_t uncertainty = (after - before) / 2 + 1;
    if (i == 0 || uncertainty < best.uncertainty_ns)
      best = {ticks, before + (after - before) / 2, uncertainty};
  }
  return true;
}

// The same of the clock of all records.
ClockEntry take_sync_point();

}  // namespace profkit::tracer
