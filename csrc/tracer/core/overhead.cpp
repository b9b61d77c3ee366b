// Measures the cost of an empty range and the clock, and looks for cores whose clocks disagree.
#include "tracer/core/overhead.h"

#include <sched.h>

#include <algorithm>

#include "tracer/core/clock.h"
#include "tracer/core/threads.h"

namespace profkit::tracer {
namespace {

constexpr int kBatches = 15;
constexpr uint32_t kBatch = 128;
constexpr int64_t kMaxHoppingNs = 5'000'000;

double median(double (&values)[kBatches]) {
  std::nth_element(values, values + kBatches / 2, values + kBatches);
  return values[kBatches / 2];
}

double clock_read_ticks() {
  const uint64_t before = read_ticks();
  uint64_t last = before;
  for (uint32_t i = 0; i < kBatch; ++i) last = read_ticks();
  return static_cast<double>(last - before) / kBatch;
}

}  // namespace

OverheadEntry measure_overhead() {
  static uint64_t words[128];
  double range_ticks[kBatches], read[kBatches];
  const ClockEntry start = take_sync_point();
  ThreadTable::empty_range_ticks(words, kBatch);  // warms up the code
  for (int i = 0; i < kBatches; ++i) {
    range_ticks[i] = ThreadTable::empty_range_ticks(words, kBatch);
    read[i] = clock_read_ticks();
  }
  const ClockEntry end = take_sync_point();
  const double ns_per_tick = static_cast<double>(end.monotonic_ns - start.monotonic_ns) /
                             static_cast<double>(end.ticks - start.ticks);
  return {median(range_ticks) * ns_per_tick, median(read) * ns_per_tick, -1};
}

double measure_core_skew_ns() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) return -1;
  const ClockEntry start = take_sync_point();
  uint64_t largest = 0, last = read_ticks();
  for (int cpu = 0; cpu < CPU_SETSIZE && monotonic_ns() - start.monotonic_ns < kMaxHoppingNs; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) continue;
    const uint64_t ticks = read_ticks();
    if (ticks < last) largest = std::max(largest, last - ticks);
    last = read_ticks();
  }
  sched_setaffinity(0, sizeof(allowed), &allowed);
  const ClockEntry end = take_sync_point();
  const double ns_per_tick = clock_is_tsc ? static_cast<double>(end.monotonic_ns - start.monotonic_ns) /
                                                static_cast<double>(end.ticks - start.ticks)
                                          : 1.0;
  return static_cast<double>(largest) * ns_per_tick;
}

}  // namespace profkit::tracer
