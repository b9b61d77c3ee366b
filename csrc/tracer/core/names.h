// The writer's side of the names (recorder.h has that of the doors): every definition in order of creation.
#pragma once

#include <cstdint>
#include <string_view>

#include "tracer/file/format.h"

namespace profkit::tracer {

// Beyond these a name becomes "(too many names)": memory stays bounded whatever a program does.
constexpr uint32_t kMaxStrings = 1u << 18;
constexpr uint32_t kMaxLabels = 1u << 18;
constexpr uint32_t kMaxDomains = 1u << 12;
constexpr uint32_t kMaxCategories = 1u << 14;
constexpr size_t kMaxTextBytes = size_t{8} << 20;
constexpr size_t kMaxNameBytes = 4096;  // longer ones are cut

// Reserves the tables; false when there is no memory. Ids requested earlier are 0.
bool prepare_names();

// Zero-terminated, for the life of the process; `id` of string_id().
const char* string_text(uint32_t id);

// As string_id(), for the tracer's own work on a quiet thread that holds no lock of names.
uint32_t string_id_while_quiet(std::string_view text);

uint32_t definition_count();
// The definition with this number and its text (empty unless it is a string).
DefinitionEntry definition(uint32_t number, std::string_view* text);
// How often a name was replaced because the tables are full.
uint64_t replaced_names();

// Around fork(): the child must find whole tables and a free lock.
void lock_names();
void unlock_names();

}  // namespace profkit::tracer
