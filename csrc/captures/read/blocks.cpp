// Walks from block to block; where one is damaged, looks for the next magic number, byte by byte.
#include "captures/read/blocks.h"

#include "tracer/file/crc32c.h"

namespace profkit::captures {
namespace {

using tracer::BlockHeader;

// Bytes of false starts that may be checksummed before the search ends: a malicious file must not make it
// slow.
constexpr uint64_t kWastePerByte = 8;
constexpr uint64_t kLeastWaste = uint64_t{64} << 20;

class Finder {
 public:
  Finder(const uint8_t* data, size_t size, uint64_t capture_id)
      : data_(data), size_(size), capture_id_(capture_id), waste_left_(kLeastWaste + kWastePerByte * size) {}

  BlockList run(size_t at) {
    while (at < size_) {
      const size_t bytes = check(at);
      if (bytes > 0) {
        at += bytes;
        continue;
      }
      const size_t next = next_block(at + 1);
      result_.damage.push_back({at, next});
      result_.is_cut = next == size_;
      at = next;
    }
    return std::move(result_);
  }

 private:
  // Size of the intact block that starts here, which is noted; 0 when there is none.
  size_t check(size_t at) {
    if (size_ - at < sizeof(BlockHeader)) return 0;
    const auto header = load<BlockHeader>(data_ + at);
    if (header.magic != tracer::kBlockMagic || header.capture_id != capture_id_) return 0;
    const size_t payload = header.payload_bytes;
    if (payload > tracer::kMaxPayloadBytes || payload % 8 != 0) return 0;
    if (payload > size_ - at - sizeof header) return 0;
    constexpr size_t kUnchecked = offsetof(BlockHeader, type);
    const size_t checked = sizeof header - kUnchecked + payload;
    if (tracer::crc32c(0, data_ + at + kUnchecked, checked) != header.crc) {
      if (waste_left_ < checked) result_.gave_up = true;
      waste_left_ -= result_.gave_up ? 0 : checked;
      return 0;
    }
    result_.blocks.push_back(
        {header.type, header.payload_bytes, header.process_id, data_ + at + sizeof header});
    return sizeof header + payload;
  }

  // Where the next intact block starts, without noting it twice: the caller's loop checks it again.
  size_t next_block(size_t at) {
    while (at < size_ && !result_.gave_up) {
      const auto* found = static_cast<const uint8_t*>(std::memchr(data_ + at, 'P', size_ - at));
      if (found == nullptr) break;
      at = static_cast<size_t>(found - data_);
      if (check(at) > 0) {
        result_.blocks.pop_back();
        return at;
      }
      ++at;
    }
    return size_;
  }

  const uint8_t* data_;
  size_t size_;
  uint64_t capture_id_;
  uint64_t waste_left_;
  BlockList result_;
};

}  // namespace

BlockList find_blocks(const uint8_t* data, size_t size, size_t first, uint64_t capture_id) {
  return Finder(data, size, capture_id).run(first);
}

}  // namespace profkit::captures
