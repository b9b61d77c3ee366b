// Protobuf's wire format, as much as writing a Perfetto trace needs: fields into a byte buffer that is
// reused.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace profkit::captures {

inline char* put_varint(char* at, uint64_t value) {
  while (value >= 128) {
    *at++ = static_cast<char>(value | 128);
    value >>= 7;
  }
  *at++ = static_cast<char>(value);
  return at;
}

// A message under construction. Field numbers are template arguments so that tags are constants.
class ProtoMessage {
 public:
  ProtoMessage() : bytes_(256) {}

  void clear() { used_ = 0; }
  bool empty() const { return used_ == 0; }
  std::string_view view() const { return {bytes_.data(), used_}; }

  template <uint32_t field>
  void number(uint64_t value) {
    char* at = put_varint(room(16), field << 3);
    commit(put_varint(at, value));
  }

  template <uint32_t field>
  void fixed64(uint64_t value) {
    fixed<field>(&value);
  }

  template <uint32_t field>
  void real(double value) {
    fixed<field>(&value);
  }

  template <uint32_t field>
  void bytes(std::string_view content) {
    char* at = put_varint(room(content.size() + 16), field << 3 | 2);
    at = put_varint(at, content.size());
    std::memcpy(at, content.data(), content.size());
    commit(at + content.size());
  }

 private:
  template <uint32_t field>
  void fixed(const void* value) {
    char* at = put_varint(room(16), field << 3 | 1);
    std::memcpy(at, value, 8);  // little endian
    commit(at + 8);
  }

  char* room(size_t size) {
    if (bytes_.size() - used_ < size) bytes_.resize(2 * bytes_.size() + size);
    return bytes_.data() + used_;
  }
  void commit(const char* end) { used_ = static_cast<size_t>(end - bytes_.data()); }

  std::vector<char> bytes_;
  size_t used_ = 0;
};

}  // namespace profkit::captures
