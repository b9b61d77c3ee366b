// Strings, domains, categories and labels, interned once. Looking up takes no lock; only a new entry does.
#include "tracer/core/names.h"

#include <pthread.h>

#include <atomic>
#include <cstring>

#include "tracer/core/chunks.h"
#include "tracer/core/lock.h"
#include "tracer/core/recorder.h"

namespace profkit::tracer {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct StoredName {
  uint32_t offset, size;
};

// A key of numbers: a domain (name, source), category (domain, number) or label.
struct Key {
  uint32_t a, b, c, d, e;
  bool operator==(const Key& other) const {
    return a == other.a && b == other.b && c == other.c && d == other.d && e == other.e;
  }
};

// Open addressing, at most half full; a slot holds id and the hash's upper half, so that nearly every
// comparison of content succeeds.
class HashIndex {
 public:
  void use(std::atomic<uint64_t>* slots, uint32_t capacity) {
    slots_ = slots;
    mask_ = capacity - 1;
  }
  template <class IsEqual>
  uint32_t find(uint64_t hash, IsEqual is_equal) const {
    for (uint64_t at = hash;; ++at) {
      const uint64_t slot = slots_[at & mask_].load(std::memory_order_acquire);
      if (slot == 0) return 0;
      if (slot >> 32 == hash >> 32 && is_equal(static_cast<uint32_t>(slot)))
        return static_cast<uint32_t>(slot);
    }
  }
  void insert(uint64_t hash, uint32_t id) {
    uint64_t at = hash;
    while (slots_[at & mask_].load(std::memory_order_relaxed) != 0) ++at;
    slots_[at & mask_].store((hash >> 32 << 32) | id, std::memory_order_release);
  }

 private:
  std::atomic<uint64_t>* slots_ = nullptr;
  uint64_t mask_ = 0;
};

struct KeyTable {
  Key* keys = nullptr;  // by id
  uint32_t capacity = 0, count = 0;
  HashIndex index;
};

char* text_memory = nullptr;
size_t text_bytes = 0;
StoredName* texts = nullptr;  // by id
uint32_t string_count = 0;
HashIndex string_index;
KeyTable domains, categories, labels;

// kind << 28 | id, in the order made
uint32_t* order = nullptr;
std::atomic<uint32_t> order_count{0};
std::atomic<uint64_t> replaced{0};
std::atomic<bool> is_prepared{false};
uint32_t fallback_string = 0, fallback_label = 0;

constexpr char kTooManyNames[] = "(too many names)";

uint64_t mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product =
      static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15) * (b ^ 0xD1B54A32D192ED03);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t load(const char* bytes, size_t size) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, size);
  return word;
}

uint64_t hash_text(std::string_view text) {
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = left;
  for (; left > 16; at += 16, left -= 16) hash = mix(load(at, 8) ^ hash, load(at + 8, 8));
  if (left >= 8) return mix(load(at, 8) ^ hash, load(at + left - 8, 8));
  return mix(hash, left >= 4 ? load(at, 4) | load(at + left - 4, 4) << 32 : load(at, left));
}

uint64_t hash_key(const Key& key) {
  return mix(mix(uint64_t{key.a} << 32 | key.b, uint64_t{key.c} << 32 | key.d), key.e);
}

bool has_text(uint32_t id, std::string_view text) {
  return texts[id].size == text.size() &&
         std::memcmp(text_memory + texts[id].offset, text.data(), text.size()) == 0;
}

void append_definition(DefinitionKind kind, uint32_t id) {
  const uint32_t count = order_count.load(std::memory_order_relaxed);
  order[count] = static_cast<uint32_t>(kind) << 28 | id;
  order_count.store(count + 1, std::memory_order_release);
}

uint32_t replace_name(uint32_t by) {
  replaced.fetch_add(1, std::memory_order_relaxed);
  return by;
}

// In a signal handler that interrupted the tracer, waiting for the lock could deadlock.
bool may_hold_lock() { return thread_state.quiet != 0 && !thread_state.is_forking; }

uint32_t insert_string(uint64_t hash, std::string_view text) {
  if (string_count >= kMaxStrings || text_bytes + text.size() >= kMaxTextBytes)
    return replace_name(fallback_string);
  const uint32_t id = ++string_count;
  std::memcpy(text_memory + text_bytes, text.data(), text.size());
  texts[id] = {static_cast<uint32_t>(text_bytes), static_cast<uint32_t>(text.size())};
  text_bytes += text.size() + 1;  // what was never written is zero
  append_definition(DefinitionKind::string, id);
  string_index.insert(hash, id);
  return id;
}

// 0 when the table is full.
uint32_t key_id(KeyTable& table, DefinitionKind kind, const Key& key) {
  const uint64_t hash = hash_key(key);
  const auto is_equal = [&](uint32_t id) { return table.keys[id] == key; };
  if (const uint32_t id = table.index.find(hash, is_equal)) return id;
  if (may_hold_lock()) return replace_name(0);
  RecordingPause quiet;
  const LockUnlessForking lock(mutex);
  uint32_t id = table.index.find(hash, is_equal);
  if (id == 0 && table.count < table.capacity) {
    id = ++table.count;
    table.keys[id] = key;
    append_definition(kind, id);
    table.index.insert(hash, id);
  }
  return id != 0 ? id : replace_name(0);
}

// Cuts a piece off the reserved memory.
template <class T>
T* cut(uint8_t*& memory, size_t count) {
  T* const piece = reinterpret_cast<T*>(memory);
  memory += (count * sizeof(T) + 63) / 64 * 64;
  return piece;
}

void cut_key_table(uint8_t*& memory, KeyTable& table, uint32_t capacity) {
  table.keys = cut<Key>(memory, capacity + 1);
  table.capacity = capacity;
  table.index.use(cut<std::atomic<uint64_t>>(memory, size_t{capacity} * 2), capacity * 2);
}

bool prepare_locked() {
  constexpr size_t kKeys = kMaxLabels + kMaxDomains + kMaxCategories;
  constexpr size_t kBytes = kMaxTextBytes + (kMaxStrings + 1) * sizeof(StoredName) +
                            (kMaxStrings + kKeys) * 2 * 8 + (kKeys + 3) * sizeof(Key) +
                            (kMaxStrings + kKeys + 8) * 4 + 16 * 64;
  uint8_t* memory = static_cast<uint8_t*>(reserve_memory(kBytes));
  if (memory == nullptr) return false;
  text_memory = cut<char>(memory, kMaxTextBytes);
  texts = cut<StoredName>(memory, kMaxStrings + 1);
  string_index.use(cut<std::atomic<uint64_t>>(memory, size_t{kMaxStrings} * 2), kMaxStrings * 2);
  cut_key_table(memory, labels, kMaxLabels);
  cut_key_table(memory, domains, kMaxDomains);
  cut_key_table(memory, categories, kMaxCategories);
  order = cut<uint32_t>(memory, kMaxStrings + kKeys + 8);
  fallback_string = insert_string(hash_text(kTooManyNames), kTooManyNames);
  const Key key{fallback_string, 0, 0, 0, static_cast<uint32_t>(Source::profkit)};
  fallback_label = labels.count = 1;
  labels.keys[1] = key;
  append_definition(DefinitionKind::label, 1);
  labels.index.insert(hash_key(key), 1);
  return true;
}

}  // namespace

bool prepare_names() {
  if (is_prepared.load(std::memory_order_acquire)) return true;
  RecordingPause quiet;
  const LockUnlessForking lock(mutex);
  bool is_ready = is_prepared.load(std::memory_order_relaxed);
  if (!is_ready) {
    is_ready = prepare_locked();
    is_prepared.store(is_ready, std::memory_order_release);
  }
  return is_ready;
}

namespace {
uint32_t intern(std::string_view text, bool may_wait) {
  if (!prepare_names()) return 0;
  if (text.size() > kMaxNameBytes) text = text.substr(0, kMaxNameBytes);
  const uint64_t hash = hash_text(text);
  const auto is_equal = [text](uint32_t id) { return has_text(id, text); };
  if (const uint32_t id = string_index.find(hash, is_equal)) return id;
  if (!may_wait) return replace_name(fallback_string);
  RecordingPause quiet;
  const LockUnlessForking lock(mutex);
  const uint32_t id = string_index.find(hash, is_equal);
  return id != 0 ? id : insert_string(hash, text);
}
}  // namespace

const char* string_text(uint32_t id) { return text_memory + texts[id].offset; }

uint32_t string_id(std::string_view text) { return intern(text, !may_hold_lock()); }
uint32_t string_id_while_quiet(std::string_view text) { return intern(text, true); }

uint32_t domain_id(std::string_view name, Source source) {
  const uint32_t text = string_id(name);
  if (text == 0) return 0;
  return key_id(domains, DefinitionKind::domain, {text, static_cast<uint32_t>(source), 0, 0, 0});
}

uint32_t category_id(uint32_t domain, uint32_t number, std::string_view name) {
  const uint32_t text = string_id(name);
  if (text == 0) return 0;
  return key_id(categories, DefinitionKind::category, {text, domain, number, 0, 0});
}

uint32_t label_id(const LabelKey& label) {
  if (!prepare_names()) return 0;
  const Key key{label.string, label.domain, label.category, label.colour,
                static_cast<uint32_t>(label.source)};
  const uint32_t id = key_id(labels, DefinitionKind::label, key);
  return id != 0 ? id : fallback_label;
}

uint32_t definition_count() { return order_count.load(std::memory_order_acquire); }

DefinitionEntry definition(uint32_t number, std::string_view* text) {
  DefinitionEntry entry{};
  entry.kind = static_cast<DefinitionKind>(order[number] >> 28);
  entry.id = order[number] & 0x0FFFFFFF;
  *text = {};
  if (entry.kind == DefinitionKind::string) {
    *text = {text_memory + texts[entry.id].offset, texts[entry.id].size};
    entry.text_bytes = texts[entry.id].size;
    return entry;
  }
  const KeyTable& table = entry.kind == DefinitionKind::domain     ? domains
                          : entry.kind == DefinitionKind::category ? categories
                                                                   : labels;
  const Key& key = table.keys[entry.id];
  return {entry.kind, entry.id, key.a, key.b, key.c, key.d, key.e, 0};
}

uint64_t replaced_names() { return replaced.load(std::memory_order_relaxed); }

void lock_names() { pthread_mutex_lock(&mutex); }
void unlock_names() { pthread_mutex_unlock(&mutex); }

}  // namespace profkit::tracer
