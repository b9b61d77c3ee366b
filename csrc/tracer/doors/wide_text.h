// Wide strings of the NVTX and ITT calls that end in W, as UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace profkit::tracer {

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
