// Keeps the recorder's id of each name.
#include "tracer/core/thread_names.h"

#include <cstring>

#include "tracer/core/id_map.h"
#include "tracer/core/names.h"
#include "tracer/core/recorder.h"

namespace profkit::tracer {
namespace {

IdMap given_names;  // strings; 0 none

}  // namespace

void name_thread(uint64_t os_thread_id, std::string_view name) {
  if (os_thread_id == 0) return;
  if (auto* const given = given_names.find(os_thread_id)) given->store(string_id(name));
}

bool given_thread_name(uint64_t os_thread_id, char (&name)[kThreadNameBytes]) {
  const auto* const given = given_names.find(os_thread_id, false);
  const uint32_t id = given == nullptr ? 0 : given->load();
  const char* const text = id == 0 ? "" : string_text(id);
  if (*text == '\0') return false;
  size_t bytes = strnlen(text, kThreadNameBytes);
  if (bytes == kThreadNameBytes) {
    --bytes;
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  }
  std::memset(name, 0, sizeof(name));
  std::memcpy(name, text, bytes);
  return true;
}

void forget_thread_name(uint64_t os_thread_id) {
  if (auto* const given = given_names.find(os_thread_id, false)) given->store(0);
}

}  // namespace profkit::tracer
