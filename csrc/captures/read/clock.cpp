// Piecewise linear between sync points, in integers: equal points give equal times on every machine.
#include "captures/read/clock.h"

#include <algorithm>
#include <cmath>

namespace profkit::captures {
namespace {

using tracer::ClockEntry;
__extension__ typedef unsigned __int128 uint128;

constexpr int kScaleBits = 44;
// Counters between 1 MHz and 100 GHz; anything outside is damage.
constexpr double kLeastRate = 1e-3, kMostRate = 100;
// Over a shorter time the difference of two points shows noise, not drift.
constexpr int64_t kDriftWindowNs = 200'000'000;

double rate_between(const ClockEntry& a, const ClockEntry& b) {
  return static_cast<double>(b.ticks - a.ticks) / static_cast<double>(b.monotonic_ns - a.monotonic_ns);
}

bool can_follow(const ClockEntry& a, const ClockEntry& b) {
  if (b.ticks <= a.ticks || b.monotonic_ns <= a.monotonic_ns) return false;
  const double rate = rate_between(a, b);
  return rate > kLeastRate && rate < kMostRate;
}

std::vector<ClockEntry> without_outliers(std::vector<ClockEntry> points) {
  points.erase(std::remove_if(points.begin(), points.end(), [](const auto& p) { return !is_in_range(p); }),
               points.end());
  if (points.empty()) return points;
  const int64_t limit = uncertainty_limit(points);
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.ticks < b.ticks; });
  std::vector<ClockEntry> kept;
  for (const ClockEntry& point : points) {
    if (point.uncertainty_ns > limit) continue;
    if (kept.empty() || can_follow(kept.back(), point)) kept.push_back(point);
  }
  return kept;
}

uint64_t scale_of(double ticks_per_ns) {
  return static_cast<uint64_t>(std::llround(std::ldexp(1.0, kScaleBits) / ticks_per_ns));
}

uint64_t scale_between(const ClockEntry& a, const ClockEntry& b) {
  const auto ns = static_cast<uint64_t>(b.monotonic_ns - a.monotonic_ns);
  return static_cast<uint64_t>((static_cast<uint128>(ns) << kScaleBits) / (b.ticks - a.ticks));
}

int64_t scaled(uint64_t ticks, uint64_t scale) {
  // Rounded up: a quotient that was cut must not turn 5000 ns into 4999.
  const uint128 product =
      (static_cast<uint128>(ticks) * scale + ((uint128{1} << kScaleBits) >> 1)) >> kScaleBits;
  return product > static_cast<uint128>(kFarthestNs) ? kFarthestNs : static_cast<int64_t>(product);
}

}  // namespace

ClockMap::ClockMap() : segments_{{0, scale_of(1), 0, 0}} {}

ClockMap::ClockMap(std::vector<ClockEntry> points, double rate_elsewhere) {
  const std::vector<ClockEntry> kept = without_outliers(std::move(points));
  if (kept.empty()) {
    *this = ClockMap();
    return;
  }
  for (size_t i = 0; i + 1 < kept.size(); ++i) {
    segments_.push_back(
        {kept[i].ticks, scale_between(kept[i], kept[i + 1]), kept[i].monotonic_ns, kept[i + 1].monotonic_ns});
  }
  measure(kept);
  last_ns_ = kept.back().monotonic_ns;
  if (has_rate_) return;
  // A clock that reads as CLOCK_MONOTONIC does is that clock.
  const double apart = static_cast<double>(kept[0].ticks) - static_cast<double>(kept[0].monotonic_ns);
  const bool is_monotonic = std::fabs(apart) <= static_cast<double>(kept[0].uncertainty_ns) + 1000;
  if (!is_monotonic && rate_elsewhere > kLeastRate && rate_elsewhere < kMostRate) rate_ = rate_elsewhere;
  segments_.push_back({kept[0].ticks, scale_of(rate_), kept[0].monotonic_ns, kept[0].monotonic_ns});
}

void ClockMap::measure(const std::vector<ClockEntry>& points) {
  int64_t longest_gap_ns = 0, uncertainty_ns = 0;
  has_rate_ = points.size() > 1;
  if (has_rate_) rate_ = rate_between(points.front(), points.back());
  size_t from = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    uncertainty_ns = std::max(uncertainty_ns, points[i].uncertainty_ns);
    if (i > 0) longest_gap_ns = std::max(longest_gap_ns, points[i].monotonic_ns - points[i - 1].monotonic_ns);
    if (points[i].monotonic_ns - points[from].monotonic_ns < kDriftWindowNs) continue;
    drift_ppm_ = std::max(drift_ppm_, std::fabs(rate_between(points[from], points[i]) / rate_ - 1) * 1e6);
    from = i;
  }
  error_ns_ =
      static_cast<double>(uncertainty_ns) + drift_ppm_ * 1e-6 * static_cast<double>(longest_gap_ns) / 2;
}

size_t ClockMap::segment_of(uint64_t ticks, size_t cursor) const {
  const auto holds = [&](size_t i) {
    return i < segments_.size() && (i == 0 || ticks >= segments_[i].start_ticks) &&
           (i + 1 == segments_.size() || ticks < segments_[i + 1].start_ticks);
  };
  if (holds(cursor)) return cursor;
  if (holds(cursor + 1)) return cursor + 1;
  const auto after = std::upper_bound(segments_.begin() + 1, segments_.end(), ticks,
                                      [](uint64_t value, const Segment& s) { return value < s.start_ticks; });
  return static_cast<size_t>(after - segments_.begin()) - 1;
}

int64_t ClockMap::monotonic_ns(uint64_t ticks, size_t& cursor) const {
  cursor = segment_of(ticks, cursor);
  const Segment& segment = segments_[cursor];
  if (ticks < segment.start_ticks) {
    return std::max(segment.start_ns - scaled(segment.start_ticks - ticks, segment.scale), -kFarthestNs);
  }
  const int64_t ns = segment.start_ns + scaled(ticks - segment.start_ticks, segment.scale);
  // Rounding must not carry a segment's last ticks beyond the start of the next.
  return std::min(ns, cursor + 1 < segments_.size() ? segment.end_ns : kFarthestNs);
}

}  // namespace profkit::captures
