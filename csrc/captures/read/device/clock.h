// CUPTI's clock of one process: pairs with CLOCK_MONOTONIC in, nanoseconds of CLOCK_MONOTONIC out.
#pragma once

#include <cstdint>
#include <vector>

#include "tracer/file/device_format.h"

namespace profkit::captures {

// Both clocks count nanoseconds, so only their distance is of interest: it is interpolated between the pairs
// and constant outside of them. Never runs back but where CUPTI's clock was set.
class DeviceClock {
 public:
  explicit DeviceClock(std::vector<tracer::DeviceClockEntry> pairs);

  bool is_known() const { return !points_.empty(); }
  int64_t monotonic_ns(uint64_t device_ns) const;
  int64_t error_ns() const { return error_ns_; }
  uint64_t steps() const { return steps_; }

 private:
  struct Point {
    int64_t device_ns, distance_ns;
  };
  std::vector<Point> points_;
  int64_t error_ns_ = -1;
  uint64_t steps_ = 0;
};

}  // namespace profkit::captures
