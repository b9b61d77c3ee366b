// See nvtx_categories.h.
#include "tracer/doors/nvtx_categories.h"

#include <cstdio>

#include "tracer/core/id_map.h"
#include "tracer/core/recorder.h"

namespace profkit::tracer {

namespace {

IdMap numbered_categories;  // those beyond its room keep their digits

// Number 0 means no category.
uint64_t key_of(uint32_t domain, uint32_t number) { return (uint64_t{domain} << 32) | number; }

uint32_t category_with_digits(uint32_t domain, uint32_t number) {
  char digits[16];
  const int bytes = std::snprintf(digits, sizeof(digits), "%u", number);
  return category_id(domain, number, {digits, static_cast<size_t>(bytes)});
}

}  // namespace

void name_nvtx_category(uint32_t domain, uint32_t number, std::string_view name) {
  if (number == 0) return;
  auto* const place = numbered_categories.find(key_of(domain, number));
  if (place == nullptr) return;
  place->store(category_id(domain, number, name), std::memory_order_release);
}

uint32_t nvtx_category(uint32_t domain, uint32_t number) {
  if (number == 0) return 0;
  auto* const place = numbered_categories.find(key_of(domain, number));
  if (place == nullptr) return category_with_digits(domain, number);
  uint32_t category = place->load(std::memory_order_acquire);
  if (category != 0) return category;
  const uint32_t digits = category_with_digits(domain, number);
  // A name that came in the meantime stays.
  return place->compare_exchange_strong(category, digits) ? digits : category;
}

}  // namespace profkit::tracer
