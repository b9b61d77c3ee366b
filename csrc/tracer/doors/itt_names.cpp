// See itt_names.h. A handle is at the place of the recorder's id, so that no second table is searched:
// programs look up the handle of a name repeatedly (torch for every range).
#include "tracer/doors/itt_names.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "tracer/core/chunks.h"
#include "tracer/core/names.h"
#include "tracer/core/recorder.h"
#include "tracer/doors/wide_text.h"

namespace profkit::tracer {
namespace {

constexpr char kTooMany[] = "(too many names)";
itt::Domain other_domains{1, kTooMany, nullptr, 0, nullptr, nullptr};
itt::StringHandle other_strings{kTooMany, nullptr, 0, nullptr, nullptr};

// Address space for a handle of each id, reserved at its first use and touched on demand.
template <class Handle, size_t most>
class Handles {
 public:
  // nullptr: no memory.
  Handle* at(uint32_t id) {
    Handle* all = all_.load(std::memory_order_acquire);
    if (all == nullptr) {
      auto* const fresh = static_cast<Handle*>(reserve_memory(kBytes));
      if (fresh == nullptr || all_.compare_exchange_strong(all, fresh)) {
        all = fresh;
      } else {
        syscall(SYS_munmap, fresh, kBytes);
      }
    }
    return all == nullptr ? nullptr : all + id;
  }

 private:
  static constexpr size_t kBytes = (most + 1) * sizeof(Handle);
  std::atomic<Handle*> all_{nullptr};
};
Handles<itt::Domain, kMaxDomains> itt_domains;
Handles<itt::StringHandle, kMaxStrings> itt_strings;

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

// Threads that ask for the same name store the same.
itt::Domain* itt_domain(std::string_view name) {
  const uint32_t id = domain_id(name, Source::itt);
  itt::Domain* const domain = id == 0 ? nullptr : itt_domains.at(id);
  if (domain == nullptr) return &other_domains;
  __atomic_store_n(&domain->name, string_text(string_id(name)), __ATOMIC_RELAXED);
  __atomic_store_n(&domain->id, static_cast<int>(id), __ATOMIC_RELAXED);
  __atomic_store_n(&domain->flags, 1, __ATOMIC_RELEASE);  // with 0 the program's macros would not call us
  return domain;
}

itt::StringHandle* itt_string(std::string_view text) {
  const uint32_t id = string_id(text);
  itt::StringHandle* const string = id == 0 ? nullptr : itt_strings.at(id);
  if (string == nullptr) return &other_strings;
  __atomic_store_n(&string->text, string_text(id), __ATOMIC_RELAXED);
  __atomic_store_n(&string->id, static_cast<int>(id), __ATOMIC_RELEASE);
  return string;
}

uint32_t id_of(const itt::Domain* domain) {
  if (domain == nullptr) return 0;
  return remembered(const_cast<int*>(&domain->id), [&] {
    if (domain->name != nullptr) return domain_id(domain->name, Source::itt);
    return domain_id(GivenText(domain->wide_name).view(), Source::itt);
  });
}

uint32_t id_of(const itt::StringHandle* string) {
  if (string == nullptr) return string_id("(unnamed)");
  return remembered(const_cast<int*>(&string->id), [&] {
    return string->text != nullptr ? string_id(string->text) : string_id(GivenText(string->wide_text).view());
  });
}

}  // namespace profkit::tracer
