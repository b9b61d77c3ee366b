// New and nudged contents of inputs by number, and sums of what is there:
// profkit/measurement/checks/contents.py makes the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace profkit {

inline uint64_t mixed(uint64_t word) {
  word += 0x9e3779b97f4a7c15u;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

enum class Element { kFloat16, kBfloat16, kFloat32, kFloat64 };

// A value in [-2, 2) as the bits of the element type; of the 16-bit types a multiple of 1/64, which both
// hold.
inline uint64_t content_bits(Element element, uint64_t seed, uint64_t index) {
  const uint64_t word = mixed(seed + index);
  if (element == Element::kFloat64) {
    const double value = static_cast<double>(static_cast<int64_t>(word) >> 11) * 0x1p-51;
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return bits;
  }
  const bool is_narrow = element != Element::kFloat32;
  const float value = is_narrow ? static_cast<float>(static_cast<int64_t>(word) >> 56) * 0x1p-6f
                                : static_cast<float>(static_cast<int64_t>(word) >> 40) * 0x1p-22f;
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (element == Element::kBfloat16) return bits >> 16;
  if (element == Element::kFloat32) return bits;
  if (value == 0) return 0;
  const uint32_t exponent = ((bits >> 23) & 0xff) - 127 + 15;
  return ((bits >> 16) & 0x8000) | (exponent << 10) | ((bits >> 13) & 0x3ff);
}

// The value with its eighth or ninth bit of fraction changed (the last two of bfloat16): another number, and
// one so near that a processor that knows the branches of the old ones knows those of the new ones.
inline uint64_t nudged_bits(Element element, uint64_t seed, uint64_t index, uint64_t bits) {
  const unsigned fraction = element == Element::kFloat64    ? 52
                            : element == Element::kFloat32  ? 23
                            : element == Element::kBfloat16 ? 7
                                                            : 10;
  const uint64_t exponents = element == Element::kFloat64   ? 0x7ff
                             : element == Element::kFloat16 ? 0x1f
                                                            : 0xff;
  if (((bits >> fraction) & exponents) == 0)
    return bits;  // zero would become one of the slow numbers near it
  return bits ^ (uint64_t{1} << ((fraction > 9 ? fraction - 9 : 0) + (mixed(seed + index) & 1)));
}

enum class Change { kNew, kNudged };

template <class T>
void change_contents(Element element, Change change, uint64_t seed, const char* from, char* into,
                     size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, from + i * sizeof(T), sizeof(T));
    bits = static_cast<T>(change == Change::kNew ? content_bits(element, seed, i)
                                                 : nudged_bits(element, seed, i, bits));
    std::memcpy(into + i * sizeof(T), &bits, sizeof(T));
  }
}

inline void change_contents(Element element, Change change, uint64_t seed, const char* from, char* into,
                            size_t bytes) {
  if (element == Element::kFloat64)
    return change_contents<uint64_t>(element, change, seed, from, into, bytes / 8);
  if (element == Element::kFloat32)
    return change_contents<uint32_t>(element, change, seed, from, into, bytes / 4);
  change_contents<uint16_t>(element, change, seed, from, into, bytes / 2);
}

// Depends on every byte and on its place; without the seed nobody can keep it while changing bytes.
inline uint64_t contents_sum(uint64_t seed, const char* first, size_t bytes) {
  uint64_t sum = 0, weight = seed | 1;
  for (size_t at = 0; at < bytes; at += 8, weight += 2 * 0x9e3779b97f4a7c15u) {
    uint64_t word = 0;
    std::memcpy(&word, first + at, bytes - at < 8 ? bytes - at : 8);
    sum += (word ^ (word >> 32)) * weight;
  }
  return sum;
}

}  // namespace profkit
