// Texts that programs give to NVTX and ITT, narrow or wide (calls that end in W): null pointers are empty,
// wide strings become UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace profkit::tracer {

// Wide names longer than this are cut at a whole character.
constexpr size_t kWideTextBytes = 1024;

class GivenText {
 public:
  explicit GivenText(const char* text) : view_(text == nullptr ? "" : text) {}
  // `length` in characters; without it the text ends at a zero. What is no Unicode character becomes U+FFFD.
  explicit GivenText(const wchar_t* text, size_t length = static_cast<size_t>(-1));
  std::string_view view() const { return view_; }

 private:
  void append(unsigned long character);

  char bytes_[kWideTextBytes];
  size_t size_ = 0;
  std::string_view view_;
};

}  // namespace profkit::tracer
