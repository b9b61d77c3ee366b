// Finds the intact blocks of a capture file: bytes in, pointers to checked payloads and the damaged places
// out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tracer/file/format.h"

namespace profkit::captures {

// Payloads may be unaligned once damage has shifted them: everything is read by copying.
template <typename T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct Block {
  tracer::BlockType type;
  uint32_t bytes;
  uint64_t process_id;
  const uint8_t* payload;
};

struct Damage {
  uint64_t begin, end;  // bytes of the file
};

struct BlockList {
  std::vector<Block> blocks;
  std::vector<Damage> damage;
  bool is_cut = false;   // the last damage reaches the file's end
  bool gave_up = false;  // more false starts than an accident makes: the search was ended
};

BlockList find_blocks(const uint8_t* data, size_t size, size_t first, uint64_t capture_id);

}  // namespace profkit::captures
