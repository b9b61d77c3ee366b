// Owned memory that starts on a cache-line boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace profkit {

class AlignedMemory {
 public:
  static constexpr size_t kAlignment = 64;

  AlignedMemory() = default;
  explicit AlignedMemory(size_t bytes)
      : size_(rounded(bytes)),
        data_(static_cast<char*>(size_ > 0 ? std::aligned_alloc(kAlignment, size_) : nullptr)) {
    if (size_ > 0 && data_ == nullptr) throw std::bad_alloc();  // becomes MemoryError, the status `oom`
  }

  char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  static size_t rounded(size_t bytes) {
    if (bytes > SIZE_MAX - kAlignment) throw std::bad_alloc();
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  size_t size_ = 0;
  std::unique_ptr<char, Free> data_;
};

}  // namespace profkit
