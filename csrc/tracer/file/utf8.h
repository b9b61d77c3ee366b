// Well-formed UTF-8, which all texts of a capture are: the recorder and the reader check it by the same rule.
#pragma once

#include <cstddef>
#include <string_view>

namespace profkit {

// Bytes of the UTF-8 sequence at the start of the text; 0 when there is none (also for surrogates, overlong
// forms and numbers above U+10FFFF).
inline size_t utf8_sequence_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return size;
}

}  // namespace profkit
