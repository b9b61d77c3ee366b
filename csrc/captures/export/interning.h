// Interned strings of a Perfetto trace: each packet sequence numbers what it names, at its first use.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace profkit::captures {

// Which strings a sequence has interned as one kind of thing, without clearing a table per sequence.
class InternTable {
 public:
  explicit InternTable(size_t strings) : entries_(strings) {}
  void start_sequence() {
    ++sequence_;
    next_ = 1;
  }
  // The id, and whether it is new here.
  std::pair<uint64_t, bool> find(int32_t string) {
    Entry& entry = entries_[static_cast<size_t>(string)];
    if (entry.sequence == sequence_) return {entry.id, false};
    entry = {sequence_, next_++};
    return {entry.id, true};
  }

 private:
  struct Entry {
    uint32_t sequence = 0;
    uint32_t id = 0;
  };
  std::vector<Entry> entries_;
  uint32_t sequence_ = 0, next_ = 1;
};

}  // namespace profkit::captures
