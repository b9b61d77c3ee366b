// A lock-free table (a fork may come at any time): slots are claimed once per thread id. A name read while it
// changes may be a mixture of both, which the next read corrects.
#include "tracer/core/thread_names.h"

#include <atomic>
#include <cstring>

namespace profkit::tracer {
namespace {

constexpr size_t kSlots = 4096;
constexpr size_t kProbes = 64;
constexpr size_t kWords = kThreadNameBytes / sizeof(uint64_t);

struct Slot {
  std::atomic<uint64_t> os_thread_id;  // 0: never used
  std::atomic<uint64_t> words[kWords];
};
Slot slots[kSlots];

Slot* find(uint64_t os_thread_id, bool may_claim) {
  for (size_t probe = 0; probe < kProbes; ++probe) {
    Slot& slot = slots[(os_thread_id + probe) % kSlots];
    uint64_t owner = slot.os_thread_id.load(std::memory_order_acquire);
    if (owner == os_thread_id) return &slot;
    if (owner != 0) continue;
    if (!may_claim) return nullptr;
    if (slot.os_thread_id.compare_exchange_strong(owner, os_thread_id)) return &slot;
    if (owner == os_thread_id) return &slot;
  }
  return nullptr;
}

void store(Slot& slot, const char (&name)[kThreadNameBytes]) {
  uint64_t words[kWords];
  std::memcpy(words, name, sizeof(words));
  for (size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
}

}  // namespace

void name_thread(uint64_t os_thread_id, std::string_view name) {
  if (os_thread_id == 0) return;
  Slot* slot = find(os_thread_id, true);
  if (slot == nullptr) return;
  size_t bytes = name.size();
  if (bytes >= kThreadNameBytes) {
    bytes = kThreadNameBytes - 1;
    while (bytes > 0 && (static_cast<unsigned char>(name[bytes]) & 0xC0) == 0x80) --bytes;
  }
  char text[kThreadNameBytes] = {};
  std::memcpy(text, name.data(), bytes);
  store(*slot, text);
}

bool given_thread_name(uint64_t os_thread_id, char (&name)[kThreadNameBytes]) {
  const Slot* slot = find(os_thread_id, false);
  if (slot == nullptr) return false;
  uint64_t words[kWords];
  for (size_t i = 0; i < kWords; ++i) words[i] = slot->words[i].load(std::memory_order_relaxed);
  std::memcpy(name, words, sizeof(words));
  name[kThreadNameBytes - 1] = '\0';
  return name[0] != '\0';
}

void forget_thread_name(uint64_t os_thread_id) {
  Slot* slot = find(os_thread_id, false);
  if (slot != nullptr) store(*slot, {});
}

}  // namespace profkit::tracer
