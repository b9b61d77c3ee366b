// See nvtx_categories.h. A table without locks: a place is claimed once per category and never given back.
#include "tracer/doors/nvtx_categories.h"

#include <atomic>
#include <cstdio>

#include "tracer/core/recorder.h"

namespace profkit::tracer {

namespace {

constexpr size_t kCategoryPlaces = 4096;  // categories beyond this keep their digits
constexpr size_t kCategoryProbes = 64;

struct CategoryPlace {
  std::atomic<uint64_t> key;  // domain and number; 0 unused (number 0 is no category)
  std::atomic<uint32_t> category;
};
CategoryPlace category_places[kCategoryPlaces];

CategoryPlace* find_category(uint32_t domain, uint32_t number) {
  const uint64_t key = (uint64_t{domain} << 32) | number;
  const uint64_t first = (key * 0x9E3779B97F4A7C15u) >> 52;
  for (size_t probe = 0; probe < kCategoryProbes; ++probe) {
    CategoryPlace& place = category_places[(first + probe) % kCategoryPlaces];
    uint64_t owner = place.key.load(std::memory_order_acquire);
    if (owner == 0) place.key.compare_exchange_strong(owner, key);
    if (owner == 0 || owner == key) return &place;
  }
  return nullptr;
}

uint32_t category_with_digits(uint32_t domain, uint32_t number) {
  char digits[16];
  const int bytes = std::snprintf(digits, sizeof(digits), "%u", number);
  return category_id(domain, number, {digits, static_cast<size_t>(bytes)});
}

}  // namespace

void name_nvtx_category(uint32_t domain, uint32_t number, std::string_view name) {
  if (number == 0) return;
  CategoryPlace* place = find_category(domain, number);
  if (place == nullptr) return;
  place->category.store(category_id(domain, number, name), std::memory_order_release);
}

uint32_t nvtx_category(uint32_t domain, uint32_t number) {
  if (number == 0) return 0;
  CategoryPlace* place = find_category(domain, number);
  if (place == nullptr) return category_with_digits(domain, number);
  uint32_t category = place->category.load(std::memory_order_acquire);
  if (category != 0) return category;
  const uint32_t digits = category_with_digits(domain, number);
  // A name that came in the meantime stays.
  return place->category.compare_exchange_strong(category, digits) ? digits : category;
}

}  // namespace profkit::tracer
