// Domains and string handles that ITT programs get: one per name, at a fixed address for the life of the
// process.
#pragma once

#include <cstdint>
#include <string_view>

#include "tracer/doors/itt_abi.h"

namespace profkit::tracer {

// Never nullptr: beyond what has room, all names share one called "(too many names)".
itt::Domain* itt_domain(std::string_view name);
itt::StringHandle* itt_string(std::string_view text);

// The recorder's ids, also of domains and strings that the program's own ITT code made before it found us.
// 0 (no domain) for nullptr; a nullptr string is "(unnamed)".
uint32_t id_of(const itt::Domain* domain);
uint32_t id_of(const itt::StringHandle* string);

}  // namespace profkit::tracer
