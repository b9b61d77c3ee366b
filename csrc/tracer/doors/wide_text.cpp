// See wide_text.h: UTF-32 (wchar_t on Linux) to UTF-8.
#include "tracer/doors/wide_text.h"

namespace profkit::tracer {

GivenText::GivenText(const wchar_t* text, size_t length) {
  if (text == nullptr) return;
  for (size_t i = 0; i < length && text[i] != L'\0'; ++i) {
    if (size_ + 4 > kWideTextBytes) break;
    append(static_cast<unsigned long>(text[i]));
  }
  view_ = {bytes_, size_};
}

void GivenText::append(unsigned long character) {
  const bool is_surrogate = character >= 0xD800 && character <= 0xDFFF;
  if (character > 0x10FFFF || is_surrogate) character = 0xFFFD;
  const auto put = [this](unsigned long byte) { bytes_[size_++] = static_cast<char>(byte); };
  const auto put_six_bits = [&](int shift) { put(0x80 | ((character >> shift) & 0x3F)); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xC0 | (character >> 6));
    put_six_bits(0);
  } else if (character < 0x10000) {
    put(0xE0 | (character >> 12));
    put_six_bits(6);
    put_six_bits(0);
  } else {
    put(0xF0 | (character >> 18));
    put_six_bits(12);
    put_six_bits(6);
    put_six_bits(0);
  }
}

}  // namespace profkit::tracer
