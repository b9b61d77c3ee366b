// CRC-32C: the processor's instruction where it has one, otherwise eight bytes a step from tables.
#include "tracer/file/crc32c.h"

#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace profkit::tracer {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 with its bits reversed

struct Tables {
  uint32_t rows[8][256];
};

// rows[k][b]: what byte b contributes when k more bytes follow it.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables.rows[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (int row = 1; row < 8; ++row) {
      const uint32_t before = tables.rows[row - 1][byte];
      tables.rows[row][byte] = (before >> 8) ^ tables.rows[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

uint32_t crc_by_tables(uint32_t state, const uint8_t* bytes, size_t size) {
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    word ^= state;
    state = 0;
    for (int k = 0; k < 8; ++k) state ^= kTables.rows[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; size > 0; ++bytes, --size) state = (state >> 8) ^ kTables.rows[0][(state ^ *bytes) & 0xFF];
  return state;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc_by_instruction(uint32_t state, const uint8_t* bytes,
                                                              size_t size) {
  uint64_t wide = state;
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  state = static_cast<uint32_t>(wide);
  for (; size > 0; ++bytes, --size) state = _mm_crc32_u8(state, *bytes);
  return state;
}
#endif

}  // namespace

uint32_t crc32c(uint32_t crc, const void* data, size_t size) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~crc_by_instruction(~crc, bytes, size);
#endif
  return ~crc_by_tables(~crc, bytes, size);
}

}  // namespace profkit::tracer
