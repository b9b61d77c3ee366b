// One process's clock: sync points in, nanoseconds of CLOCK_MONOTONIC for any reading of the clock out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tracer/file/format.h"

namespace profkit::captures {

constexpr int64_t kFarthestNs = int64_t{1} << 61;  // differences of two times never overflow

// Points (pairs of readings) above this are left out: one taken while the thread was interrupted says little,
// and the others bound it better.
template <class Point>
int64_t uncertainty_limit(const std::vector<Point>& points) {
  std::vector<int64_t> uncertainties;
  for (const Point& point : points) uncertainties.push_back(point.uncertainty_ns);
  const auto middle = uncertainties.begin() + static_cast<std::ptrdiff_t>(uncertainties.size() / 2);
  std::nth_element(uncertainties.begin(), middle, uncertainties.end());
  return *middle < kFarthestNs / 8 ? 4 * *middle + 200 : *middle;
}

// Whether a point's times can be computed with.
template <class Point>
bool is_in_range(const Point& point) {
  return point.monotonic_ns > -kFarthestNs && point.monotonic_ns < kFarthestNs && point.uncertainty_ns >= 0 &&
         point.uncertainty_ns < kFarthestNs;
}

class ClockMap {
 public:
  // Ticks are nanoseconds.
  ClockMap();
  // Points of one process in any order; uncertain and contradicting ones are left out. With a single one the
  // rate (ticks per ns) is the given one, or 1 when that is 0.
  ClockMap(std::vector<tracer::ClockEntry> points, double rate_elsewhere);

  // Never decreases with `ticks`. `cursor` remembers the segment: one per thread, whose ticks come in order.
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
