// Names that programs give their threads through NVTX and ITT; the writer prefers them to the system's names.
#pragma once

#include <cstdint>
#include <string_view>

namespace profkit::tracer {

constexpr size_t kThreadNameBytes = 32;  // with the closing zero, as ThreadEntry::name

// The latest name wins; longer ones are cut at a whole UTF-8 character. Beyond 4096 named threads: forgotten.
void name_thread(uint64_t os_thread_id, std::string_view name);

// The name given, zero-padded into `name`; false when there is none.
bool given_thread_name(uint64_t os_thread_id, char (&name)[kThreadNameBytes]);

// The thread ended: its number may be given to another, which must not inherit the name.
void forget_thread_name(uint64_t os_thread_id);

}  // namespace profkit::tracer
