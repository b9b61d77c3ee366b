// The slow paths of thread.h: a thread's first event, a new name, a new domain.
#include "tracer/doors/thread.h"

#include "tracer/core/chunks.h"
#include "tracer/core/threads.h"

namespace profkit::tracer {

// Zero pages from the kernel are a valid, empty DoorThread.
DoorThread* DoorThread::create(ThreadRecorder& recorder) {
  auto* state = static_cast<DoorThread*>(reserve_memory(sizeof(DoorThread)));
  if (state != nullptr) recorder.door_state = state;
  return state;
}

uint32_t DoorThread::remember_text(Entry& entry, const char* text, const LabelStyle& style, Source source) {
  const size_t bytes = std::strlen(text);
  const uint32_t string = string_id({text, bytes});
  const uint32_t label = label_id({string, style.domain, style.category, style.colour, source});
  if (bytes >= kEntryText) return label;
  entry.name = text;
  entry.style = style;
  entry.string = 0;
  entry.label = label;
  std::memcpy(entry.text, text, bytes + 1);
  return label;
}

uint32_t DoorThread::remember_string(Entry& entry, const void* handle, uint32_t string,
                                     const LabelStyle& style, Source source) {
  entry.name = handle;
  entry.style = style;
  entry.string = string;
  entry.label = label_id({string, style.domain, style.category, style.colour, source});
  entry.text[0] = '\0';
  return entry.label;
}

// A place that is unused, or whose group has nothing open, is taken; with more groups open than places the
// first place is shared.
DoorThread::Level& DoorThread::find_level(uint64_t owner, uint32_t group) {
  Level* unused = nullptr;
  for (size_t i = 0; i < kLevels; ++i) {
    Level& level = levels_[(group + i) % kLevels];
    const bool is_current = level.owner == owner;
    if (is_current && level.group == group) return level;
    if (unused == nullptr && (!is_current || level.open == 0)) unused = &level;
  }
  if (unused == nullptr) {
    Level& shared = levels_[group % kLevels];
    shared.is_shared = true;
    return shared;
  }
  *unused = Level{owner, group, 0, 0, false};
  return *unused;
}

bool DoorThread::refuse() {
  losses.too_deep.fetch_add(1, std::memory_order_relaxed);
  return false;
}

}  // namespace profkit::tracer
