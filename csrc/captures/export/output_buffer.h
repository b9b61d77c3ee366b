// A large buffer in front of a writer: serialisers append to it, it passes on full pieces.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "captures/export/trace_content.h"

namespace profkit::captures {

class OutputBuffer {
 public:
  explicit OutputBuffer(const WriteBytes& write) : write_(write), bytes_(kBytes) {}

  // At least `size` writable bytes; commit() says how far they were used.
  char* room(size_t size) {
    if (bytes_.size() - used_ < size) {
      flush();
      if (bytes_.size() < size) bytes_.resize(size);
    }
    return bytes_.data() + used_;
  }
  void commit(const char* end) { used_ = static_cast<size_t>(end - bytes_.data()); }

  void append(std::string_view text) {
    char* at = room(text.size());
    std::memcpy(at, text.data(), text.size());
    commit(at + text.size());
  }

  void flush() {
    if (used_ > 0) write_(bytes_.data(), used_);
    used_ = 0;
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 20;
  const WriteBytes& write_;
  std::vector<char> bytes_;
  size_t used_ = 0;
};

}  // namespace profkit::captures
