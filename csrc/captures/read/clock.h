// One process's clock: sync points in, nanoseconds of CLOCK_MONOTONIC for any reading of the clock out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tracer/file/format.h"

namespace profkit::captures {

class ClockMap {
 public:
  // Ticks are nanoseconds.
  ClockMap();
  // Points of one process in any order; uncertain and contradicting ones are left out. With a single one the
  // rate (ticks per ns) is the given one, or 1 when that is 0.
  ClockMap(std::vector<tracer::ClockEntry> points, double rate_elsewhere);

  // Never decreases with `ticks`. `cursor` remembers the segment: one per thread, which asks in order.
  int64_t monotonic_ns(uint64_t ticks, size_t& cursor) const;

  int64_t first_ns() const { return segments_.front().start_ns; }
  int64_t last_ns() const { return last_ns_; }
  bool has_rate() const { return has_rate_; }  // measured here, by two points
  double rate() const { return rate_; }
  double drift_ppm() const { return drift_ppm_; }
  double error_ns() const { return error_ns_; }

 private:
  struct Segment {
    uint64_t start_ticks;
    uint64_t scale;  // ns per tick * 2^kScaleBits
    int64_t start_ns, end_ns;
  };

  size_t segment_of(uint64_t ticks, size_t cursor) const;
  void measure(const std::vector<tracer::ClockEntry>& points);

  std::vector<Segment> segments_;
  int64_t last_ns_ = 0;
  bool has_rate_ = false;
  double rate_ = 1, drift_ppm_ = 0, error_ns_ = 0;
};

}  // namespace profkit::captures
