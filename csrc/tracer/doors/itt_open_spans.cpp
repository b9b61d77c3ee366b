// See itt_open_spans.h. A table without locks, searched by a hash of the key: 63 bits, so that two open spans
// are not confused in practice.
#include "tracer/doors/itt_open_spans.h"

#include <atomic>
#include <initializer_list>

namespace profkit::tracer {
namespace {

constexpr size_t kPlaces = 4096;
constexpr size_t kProbes = 64;
constexpr uint64_t kFree = 0;
constexpr uint64_t kClaimed = 1;  // being filled, or taken a moment ago; real keys are odd and larger

struct SpanPlace {
  std::atomic<uint64_t> key;
  std::atomic<uint64_t> span;
};
SpanPlace places[kPlaces];

uint64_t mixed(const IttSpanKey& key) {
  uint64_t hash = 0x9E3779B97F4A7C15u;
  for (const uint64_t part :
       {uint64_t{key.owner}, uint64_t{key.id.d1}, uint64_t{key.id.d2}, uint64_t{key.id.d3}}) {
    hash = (hash ^ part) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 33;
  }
  return hash | 3;
}

}  // namespace

bool remember_open_span(const IttSpanKey& key, uint64_t span) {
  const uint64_t hash = mixed(key);
  for (size_t probe = 0; probe < kProbes; ++probe) {
    SpanPlace& place = places[((hash >> 40) + probe) % kPlaces];
    uint64_t expected = kFree;
    if (!place.key.compare_exchange_strong(expected, kClaimed)) continue;
    place.span.store(span, std::memory_order_relaxed);
    place.key.store(hash, std::memory_order_release);
    return true;
  }
  return false;
}

uint64_t take_open_span(const IttSpanKey& key) {
  const uint64_t hash = mixed(key);
  for (size_t probe = 0; probe < kProbes; ++probe) {
    SpanPlace& place = places[((hash >> 40) + probe) % kPlaces];
    uint64_t expected = hash;
    if (!place.key.compare_exchange_strong(expected, kClaimed)) continue;
    const uint64_t span = place.span.load(std::memory_order_relaxed);
    place.key.store(kFree, std::memory_order_release);
    return span;
  }
  return 0;
}

}  // namespace profkit::tracer
