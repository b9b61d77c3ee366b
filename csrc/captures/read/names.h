// Names of a capture: definition blocks in, one table of strings for all processes and labels by id out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace profkit::captures {

// The text with everything that is not UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

// All strings of the capture, each once.
class StringTable {
 public:
  int32_t index(std::string_view text);
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, int32_t> known_;
};

// Values by id. Ids ascend from 1, so a plain vector suffices; ids after lost definitions go into a map, so
// that a number in the file never decides how much memory is taken.
template <typename T>
class IdTable {
 public:
  void set(uint32_t id, const T& value) {
    if (id < dense_.size() + kSlack) {
      if (id >= dense_.size()) {
        dense_.resize(id + 1);
        is_set_.resize(id + 1, 0);
      }
      dense_[id] = value;
      is_set_[id] = 1;
    } else {
      sparse_[id] = value;
    }
  }
  const T* find(uint32_t id) const {
    if (id < dense_.size() && is_set_[id]) return &dense_[id];
    if (sparse_.empty()) return nullptr;
    const auto found = sparse_.find(id);
    return found == sparse_.end() ? nullptr : &found->second;
  }

 private:
  static constexpr size_t kSlack = 16;
  std::vector<T> dense_;
  std::vector<uint8_t> is_set_;
  std::unordered_map<uint32_t, T> sparse_;
};

// What a range is called; numbers of StringTable, -1 none.
struct Label {
  int32_t name = -1, domain = -1, category = -1;
  uint32_t colour = 0;
  uint8_t source = 0;
};

// The definitions of one process.
class Names {
 public:
  // False when the block ends within an entry; the entries before it are kept.
  bool add_block(const uint8_t* payload, uint32_t bytes, StringTable& strings);
  // Definitions that were lost give a label that says so.
  void set_lost_name(int32_t name) { lost_.name = name; }
  const Label& label(uint64_t id) const {
    const Label* found = id <= UINT32_MAX ? labels_.find(static_cast<uint32_t>(id)) : nullptr;
    return found != nullptr ? *found : lost_;
  }
  bool is_lost(const Label& label) const { return &label == &lost_; }
  // The string with this id, as a number of StringTable.
  int32_t string(uint32_t id) const {
    const int32_t* found = strings_.find(id);
    return found != nullptr ? *found : lost_.name;
  }

 private:
  IdTable<int32_t> strings_, domains_, categories_;
  IdTable<Label> labels_;
  Label lost_;
};

}  // namespace profkit::captures
