// Interpolates the distance of two clocks, in integers.
#include "captures/read/device/clock.h"

#include <algorithm>
#include <cstdlib>

#include "captures/read/clock.h"

namespace profkit::captures {
namespace {

using tracer::DeviceClockEntry;
__extension__ typedef __int128 int128;

// Clocks that drift apart faster than this did not drift: one was set.
constexpr int64_t kMostDriftPart = 100;
// Pairs closer than this would say more about their uncertainty than about the clocks' rates.
constexpr int64_t kLeastApartNs = 50'000'000;

bool is_possible(const DeviceClockEntry& pair) {
  return pair.device_ns < static_cast<uint64_t>(kFarthestNs) && is_in_range(pair);
}

}  // namespace

DeviceClock::DeviceClock(std::vector<DeviceClockEntry> pairs) {
  pairs.erase(std::remove_if(pairs.begin(), pairs.end(), [](const auto& p) { return !is_possible(p); }),
              pairs.end());
  if (pairs.empty()) return;
  const int64_t limit = uncertainty_limit(pairs);
  std::sort(pairs.begin(), pairs.end(),
            [](const auto& a, const auto& b) { return a.device_ns < b.device_ns; });
  for (const DeviceClockEntry& pair : pairs) {
    const auto device_ns = static_cast<int64_t>(pair.device_ns);
    if (pair.uncertainty_ns > limit) continue;
    if (!points_.empty() && device_ns - points_.back().device_ns < kLeastApartNs) continue;
    points_.push_back({device_ns, pair.monotonic_ns - device_ns});
    error_ns_ = std::max(error_ns_, pair.uncertainty_ns);
  }
  for (size_t i = 1; i < points_.size(); ++i) {
    const int64_t drift = std::abs(points_[i].distance_ns - points_[i - 1].distance_ns);
    const int64_t apart = points_[i].device_ns - points_[i - 1].device_ns;
    // Two pairs within moments of each other differ by their uncertainty alone.
    if (drift > apart / kMostDriftPart + 2 * limit) ++steps_;
  }
}

int64_t DeviceClock::monotonic_ns(uint64_t value) const {
  const auto device_ns = static_cast<int64_t>(std::min(value, static_cast<uint64_t>(kFarthestNs)));
  const auto after =
      std::upper_bound(points_.begin(), points_.end(), device_ns,
                       [](int64_t time, const Point& point) { return time < point.device_ns; });
  if (after == points_.begin()) return device_ns + points_.front().distance_ns;
  const Point& before = *(after - 1);
  if (after == points_.end()) return device_ns + before.distance_ns;
  const int64_t apart = after->device_ns - before.device_ns;
  const int128 drift = static_cast<int128>(after->distance_ns - before.distance_ns);
  // Never more than time itself went on: the map must not run back.
  const int128 bounded = std::max<int128>(drift, -static_cast<int128>(apart));
  const auto part = static_cast<int64_t>(bounded * (device_ns - before.device_ns) / apart);
  return device_ns + before.distance_ns + part;
}

}  // namespace profkit::captures
