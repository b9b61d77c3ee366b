// What the NVTX and ITT doors remember of one thread: the labels of names it used before, so that a name seen
// again costs a comparison instead of a search, and how many ranges each domain has open, which a push
// answers.
#pragma once

#include <cstdint>
#include <cstring>

#include "tracer/core/recorder.h"

namespace profkit::tracer {

class DoorThread {
 public:
  // nullptr when there is no memory: the event is then not recorded.
  static DoorThread* of(ThreadRecorder& recorder) {
    return recorder.door_state != nullptr ? static_cast<DoorThread*>(recorder.door_state) : create(recorder);
  }

  // What distinguishes labels besides their names.
  struct LabelStyle {
    uint32_t domain, category, colour;
  };

  // The label of a zero-terminated text. The address finds it, the content decides: a program may reuse a
  // buffer.
  uint32_t label_of_text(const char* text, const LabelStyle& style, Source source) {
    Entry& entry = entry_for(text, style);
    if (entry.matches(text, style) && std::strcmp(entry.text, text) == 0) return entry.label;
    return remember_text(entry, text, style, source);
  }

  // The label of a string that has an id already; `handle` only finds it.
  uint32_t label_of_string(const void* handle, uint32_t string, const LabelStyle& style, Source source) {
    Entry& entry = entry_for(handle, style);
    if (entry.matches(handle, style) && entry.string == string) return entry.label;
    return remember_string(entry, handle, string, style, source);
  }

  // The level (0 outermost) of the range within its group, or kNotTracked.
  int push(ThreadRecorder& recorder, uint32_t label, uint32_t group, Payload payload = {}) {
    Level& level = level_of(recorder, group);
    // Within a range that was too deep to be recorded nothing of its group is: pops must find their pushes.
    const bool is_recorded = level.skipped == 0 ? recorder.begin(label, group, payload) != 0 : refuse();
    if (!is_recorded) ++level.skipped;
    const int result = static_cast<int>(level.open++);
    return level.is_shared ? kNotTracked : result;
  }

  // The level of the range that ended; negative when there was none.
  int pop(ThreadRecorder& recorder, uint32_t group) {
    Level& level = level_of(recorder, group);
    if (level.skipped > 0) {
      --level.skipped;
    } else if (!recorder.end_innermost(group)) {
      return -1;
    }
    if (level.open > 0) --level.open;
    return level.is_shared ? kNotTracked : static_cast<int>(level.open);
  }

  static constexpr int kNotTracked = -2;

 private:
  static constexpr size_t kEntries = 128;
  static constexpr size_t kEntryText = 100;  // longer names are looked up each time
  static constexpr size_t kLevels = 32;

  struct alignas(64) Entry {
    const void* name;
    LabelStyle style;
    uint32_t string;  // 0 for a text, whose content is kept below
    uint32_t label;   // 0: unused
    char text[kEntryText];

    bool matches(const void* other_name, const LabelStyle& other) const {
      return name == other_name && label != 0 && style.domain == other.domain &&
             style.category == other.category && style.colour == other.colour;
    }
  };
  static_assert(sizeof(Entry) == 128, "two cache lines");

  struct Level {
    uint64_t owner;  // of_whom()
    uint32_t group;
    uint32_t open;     // with the skipped ones
    uint32_t skipped;  // the innermost ones: too deep, so they are not in the recorder's stack
    bool is_shared;    // more groups than places: several are counted here, so the level is not known
  };

  static DoorThread* create(ThreadRecorder& recorder);
  uint32_t remember_text(Entry& entry, const char* text, const LabelStyle& style, Source source);
  uint32_t remember_string(Entry& entry, const void* handle, uint32_t string, const LabelStyle& style,
                           Source source);
  Level& find_level(uint64_t owner, uint32_t group);
  static bool refuse();  // false, and counts a lost range

  Entry& entry_for(const void* name, const LabelStyle& style) {
    const uint64_t bits = reinterpret_cast<uint64_t>(name) ^ (uint64_t{style.domain} << 40) ^
                          (uint64_t{style.category} << 20) ^ style.colour;
    return entries_[(bits * 0x9E3779B97F4A7C15u) >> 57];
  }

  // A capture and a thread: with another one of either all stacks are new. Never 0.
  static uint64_t of_whom(const ThreadRecorder& recorder) {
    return (uint64_t{recording.load(std::memory_order_relaxed)} << 32 | recorder.thread_index()) + 1;
  }

  Level& level_of(const ThreadRecorder& recorder, uint32_t group) {
    const uint64_t owner = of_whom(recorder);
    Level& level = levels_[group % kLevels];
    return level.group == group && level.owner == owner ? level : find_level(owner, group);
  }

  Level levels_[kLevels];
  Entry entries_[kEntries];
};

// What a call through a door works with; false when the call is not recorded.
struct DoorCall {
  ThreadRecorder* recorder = this_thread();
  DoorThread* thread = recorder == nullptr ? nullptr : DoorThread::of(*recorder);

  explicit operator bool() const { return thread != nullptr; }
};

}  // namespace profkit::tracer
