// NVTX categories: numbers within a domain, which a program may name at any time.
#pragma once

#include <cstdint>
#include <string_view>

namespace profkit::tracer {

// Events from now on have this name; those before keep the one they had.
void name_nvtx_category(uint32_t domain, uint32_t number, std::string_view name);

// The recorder's category; its name is the number's digits until it gets another. 0 (none) for number 0.
uint32_t nvtx_category(uint32_t domain, uint32_t number);

}  // namespace profkit::tracer
