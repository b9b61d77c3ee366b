// See itt_names.h. Lock-free hash tables of pointers: two threads that insert the same new name race for the
// slot, and the loser's copy is left unused. Programs look up the handle of a name repeatedly (torch for
// every range), so lookups must be fast.
#include "tracer/doors/itt_names.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>

#include "tracer/core/chunks.h"
#include "tracer/core/recorder.h"
#include "tracer/doors/wide_text.h"

namespace profkit::tracer {
namespace {

// --- Memory that is never given back: address space reserved at once, used from front to back ---
constexpr size_t kArenaBytes = size_t{24} << 20;

std::atomic<char*> arena{nullptr};
std::atomic<size_t> arena_used{0};

char* arena_start() {
  char* start = arena.load(std::memory_order_acquire);
  if (start != nullptr) return start;
  char* fresh = static_cast<char*>(reserve_memory(kArenaBytes));
  if (fresh == nullptr || arena.compare_exchange_strong(start, fresh)) return fresh;
  syscall(SYS_munmap, fresh, kArenaBytes);
  return start;
}

void* allocate_forever(size_t bytes) {
  char* start = arena_start();
  if (start == nullptr) return nullptr;
  const size_t rounded = (bytes + 15) & ~size_t{15};
  if (arena_used.load(std::memory_order_relaxed) + rounded > kArenaBytes) return nullptr;
  const size_t offset = arena_used.fetch_add(rounded);
  return offset + rounded > kArenaBytes ? nullptr : start + offset;
}

// The object with its text behind it.
template <typename Object>
Object* make_with_text(std::string_view text, char** copy) {
  char* memory = static_cast<char*>(allocate_forever(sizeof(Object) + text.size() + 1));
  if (memory == nullptr) return nullptr;
  *copy = memory + sizeof(Object);
  std::memcpy(*copy, text.data(), text.size());
  (*copy)[text.size()] = '\0';
  return new (memory) Object{};
}

// --- Tables ---
uint64_t hash_of(std::string_view text) {
  uint64_t hash = text.size() * 0x9E3779B97F4A7C15u;
  const char* position = text.data();
  size_t left = text.size();
  for (; left > 0; left -= left < 8 ? left : 8, position += 8) {
    uint64_t word = 0;
    std::memcpy(&word, position, left < 8 ? left : 8);
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
  }
  return hash;
}

template <typename Object, size_t places, size_t most>
class Table {
 public:
  // `make` is called for a new name; nullptr when there is no room.
  template <typename Make>
  Object* find_or_make(std::string_view text, Make make) {
    for (size_t place = hash_of(text), probe = 0; probe < places; ++place, ++probe) {
      std::atomic<Object*>& slot = slots_[place % places];
      Object* object = slot.load(std::memory_order_acquire);
      if (object == nullptr) {
        if (count_.load(std::memory_order_relaxed) >= most) return nullptr;
        Object* fresh = make(text);
        if (fresh == nullptr) return nullptr;
        if (slot.compare_exchange_strong(object, fresh)) {
          count_.fetch_add(1, std::memory_order_relaxed);
          return fresh;
        }
      }
      const char* name = text_of(*object);
      if (std::strncmp(name, text.data(), text.size()) == 0 && name[text.size()] == '\0') return object;
    }
    return nullptr;
  }

 private:
  static const char* text_of(const itt::Domain& domain) { return domain.name; }
  static const char* text_of(const itt::StringHandle& string) { return string.text; }

  std::atomic<Object*> slots_[places];
  std::atomic<size_t> count_;
};

// At most half full, so that a search is short.
Table<itt::Domain, 1024, 512> itt_domains;
Table<itt::StringHandle, size_t{1} << 19, size_t{1} << 18> strings;

constexpr char kTooMany[] = "(too many names)";
itt::Domain other_domains{1, kTooMany, nullptr, 0, nullptr, nullptr};
itt::StringHandle other_strings{kTooMany, nullptr, 0, nullptr, nullptr};

itt::Domain* make_domain(std::string_view name) {
  char* copy = nullptr;
  auto* domain = make_with_text<itt::Domain>(name, &copy);
  if (domain == nullptr) return nullptr;
  domain->flags = 1;  // with 0 the program's macros would not call us
  domain->name = copy;
  domain->id = static_cast<int>(domain_id(name, Source::itt));
  return domain;
}

itt::StringHandle* make_string(std::string_view text) {
  char* copy = nullptr;
  auto* string = make_with_text<itt::StringHandle>(text, &copy);
  if (string == nullptr) return nullptr;
  string->text = copy;
  string->id = static_cast<int>(string_id(text));
  return string;
}

// Several threads may compute and store the same number; the program never looks at it.
template <typename MakeId>
uint32_t remembered(int* id, MakeId make) {
  const int known = __atomic_load_n(id, __ATOMIC_RELAXED);
  if (known != 0) return static_cast<uint32_t>(known);
  const uint32_t made = make();
  __atomic_store_n(id, static_cast<int>(made), __ATOMIC_RELAXED);
  return made;
}

}  // namespace

itt::Domain* itt_domain(std::string_view name) {
  itt::Domain* domain = itt_domains.find_or_make(name, make_domain);
  return domain == nullptr ? &other_domains : domain;
}

itt::StringHandle* itt_string(std::string_view text) {
  itt::StringHandle* string = strings.find_or_make(text, make_string);
  return string == nullptr ? &other_strings : string;
}

uint32_t id_of(const itt::Domain* domain) {
  if (domain == nullptr) return 0;
  return remembered(const_cast<int*>(&domain->id), [&] {
    if (domain->name != nullptr) return domain_id(domain->name, Source::itt);
    return domain_id(WideText(domain->wide_name).view(), Source::itt);
  });
}

uint32_t id_of(const itt::StringHandle* string) {
  if (string == nullptr) return string_id("(unnamed)");
  return remembered(const_cast<int*>(&string->id), [&] {
    return string->text != nullptr ? string_id(string->text) : string_id(WideText(string->wide_text).view());
  });
}

}  // namespace profkit::tracer
