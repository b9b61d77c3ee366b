// Numbers by key, for tables that any thread may ask at any time, also while the process forks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace profkit::tracer {

// No locks: a place is claimed once per key and never released. Keys are not 0; all values begin as 0.
class IdMap {
 public:
  // nullptr: the key is not there, and there is no room for it or it is not to be added.
  std::atomic<uint32_t>* find(uint64_t key, bool may_add = true) {
    const uint64_t first = (key * 0x9E3779B97F4A7C15u) >> 52;
    for (size_t probe = 0; probe < kProbes; ++probe) {
      Place& place = places_[(first + probe) % kPlaces];
      uint64_t owner = place.key.load(std::memory_order_acquire);
      if (owner == 0 && !may_add) return nullptr;
      if (owner == 0) place.key.compare_exchange_strong(owner, key);
      if (owner == 0 || owner == key) return &place.value;
    }
    return nullptr;
  }

 private:
  static constexpr size_t kPlaces = 4096, kProbes = 64;
  struct Place {
    std::atomic<uint64_t> key;
    std::atomic<uint32_t> value;
  };
  Place places_[kPlaces];
};

}  // namespace profkit::tracer
