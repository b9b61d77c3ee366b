// Texts that programs give to NVTX and ITT: null pointers are empty, wide strings (calls that end in W)
// become UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace profkit::tracer {

inline std::string_view text_of(const char* text) { return text == nullptr ? "" : text; }

// Names longer than this are cut at a whole character.
constexpr size_t kWideTextBytes = 1024;

class WideText {
 public:
  // `length` in characters; without it the text ends at a zero. A null pointer is an empty text. What is no
  // Unicode character becomes U+FFFD.
  explicit WideText(const wchar_t* text, size_t length = static_cast<size_t>(-1));
  std::string_view view() const { return {bytes_, size_}; }

 private:
  void append(unsigned long character);

  char bytes_[kWideTextBytes];
  size_t size_ = 0;
};

}  // namespace profkit::tracer
