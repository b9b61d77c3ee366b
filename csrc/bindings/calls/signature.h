// SipHash-2-4: shows that a reply comes from the native server, which alone in the worker knows the key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace profkit {

using SignatureKey = std::array<uint64_t, 2>;

inline uint64_t signature(const SignatureKey& key, const char* text, size_t length) {
  uint64_t v0 = key[0] ^ 0x736f6d6570736575u, v1 = key[1] ^ 0x646f72616e646f6du;
  uint64_t v2 = key[0] ^ 0x6c7967656e657261u, v3 = key[1] ^ 0x7465646279746573u;
  const auto turned = [](uint64_t word, int bits) { return (word << bits) | (word >> (64 - bits)); };
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1, v2 += v3;
      v1 = turned(v1, 13) ^ v0, v3 = turned(v3, 16) ^ v2;
      v0 = turned(v0, 32);
      v2 += v1, v0 += v3;
      v1 = turned(v1, 17) ^ v2, v3 = turned(v3, 21) ^ v0;
      v2 = turned(v2, 32);
    }
  };
  const auto take = [&](uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  };
  size_t at = 0;
  for (; at + 8 <= length; at += 8) {
    uint64_t word;
    std::memcpy(&word, text + at, 8);
    take(word);
  }
  uint64_t last = static_cast<uint64_t>(length) << 56;
  for (size_t i = 0; at + i < length; ++i) {
    last |= static_cast<uint64_t>(static_cast<unsigned char>(text[at + i])) << (8 * i);
  }
  take(last);
  v2 ^= 0xff;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace profkit
