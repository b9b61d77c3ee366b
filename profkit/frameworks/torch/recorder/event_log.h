// What one thread did, as plain records in chunks that never move: written by that thread alone, without lock
// or system call besides the clock, and copied out as bytes when recording has ended.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace profkit::torch_source {

// Beside torch's own record scopes (at::RecordScope, below 100).
enum Scope : int32_t { kLayer = 100, kRuntime = 101 };

struct Span {  // native.py reads the same layout
  int64_t start_ns;
  int64_t end_ns;           // 0: was still open
  int64_t sequence;         // -1: none
  uint64_t forward_thread;  // torch's number of the thread that ran the forward operator; 0: none
  int64_t operands;         // place in the words; -1: not recorded
  int64_t pool_cpu_ns;      // CPU time of the helper threads meanwhile; -1: not read
  int32_t operand_words;
  int32_t name;
  int32_t parent;  // -1: none
  int32_t scope;
};

struct Allocation {
  int64_t time_ns;
  uint64_t address;
  int64_t bytes;  // negative: freed
  int64_t span;   // the innermost open one of this thread; -1: none
};

using Clocks = std::vector<clockid_t>;

inline int64_t cpu_ns(const Clocks& clocks) {
  int64_t sum = 0;
  for (const clockid_t clock : clocks) {
    timespec now{};  // stays 0 for a thread that has ended
    clock_gettime(clock, &now);
    sum += int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
  return sum;
}

inline int64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// A table that grows by whole chunks. One thread appends; another may read what `size` covered.
template <typename Record, size_t kPerChunk, size_t kChunks>
class Log {
 public:
  Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  // Index of `count` records side by side, all zero; -1 when there is no room.
  int64_t append(size_t count = 1) {
    size_t first = size_.load(std::memory_order_relaxed);
    if (first % kPerChunk + count > kPerChunk) first += kPerChunk - first % kPerChunk;
    if (count > kPerChunk || !has_chunk(first / kPerChunk)) return -1;
    size_.store(first + count, std::memory_order_release);
    return static_cast<int64_t>(first);
  }

  Record& operator[](int64_t index) {
    const size_t place = static_cast<size_t>(index);
    return chunks_[place / kPerChunk].load(std::memory_order_relaxed)[place % kPerChunk];
  }

  // Touch the first chunk, so that no page fault falls into a step.
  void prepare() { has_chunk(0); }

  std::string bytes() {
    const size_t size = size_.load(std::memory_order_acquire);
    std::string result(size * sizeof(Record), '\0');
    for (size_t first = 0; first < size; first += kPerChunk) {
      const size_t count = size - first < kPerChunk ? size - first : kPerChunk;
      std::memcpy(&result[first * sizeof(Record)], chunks_[first / kPerChunk].load(), count * sizeof(Record));
    }
    return result;
  }

 private:
  bool has_chunk(size_t number) {
    if (number >= kChunks) return false;
    if (chunks_[number].load(std::memory_order_relaxed) == nullptr) {
      chunks_[number].store(new (std::nothrow) Record[kPerChunk](), std::memory_order_release);
    }
    return chunks_[number].load(std::memory_order_relaxed) != nullptr;
  }

  std::atomic<size_t> size_{0};
  std::array<std::atomic<Record*>, kChunks> chunks_{};
};

class ThreadLog {
 public:
  ThreadLog(uint64_t session, int64_t os_id, uint64_t torch_id)
      : session(session), os_id(os_id), torch_id(torch_id) {
    spans.prepare();
    allocations.prepare();
    words.prepare();
  }

  // Opens a span and returns it, to be filled in; nullptr when it is lost. `owner` identifies the one to
  // close.
  Span* open(const void* owner) {
    if (depth_ == kMaxDepth) return lose();
    const int64_t index = spans.append();
    if (index < 0) return lose();
    Span& span = spans[index];
    span.parent = static_cast<int32_t>(innermost());
    span.operands = -1;
    span.pool_cpu_ns = helpers != nullptr ? cpu_ns(*helpers) : -1;
    open_[depth_++] = {owner, index};
    return &span;
  }

  // Ends the span of this owner, and with it whatever was opened inside and not closed.
  void close(const void* owner, int64_t now_ns) {
    for (int depth = depth_ - 1; depth >= 0; --depth) {
      if (open_[depth].owner != owner) continue;
      const int64_t helped_ns = helpers != nullptr ? cpu_ns(*helpers) : 0;
      while (depth_ > depth) {
        Span& span = spans[open_[--depth_].span];
        span.end_ns = now_ns;
        if (helpers == nullptr) continue;
        const int64_t taken_ns = helped_ns - span.pool_cpu_ns;
        span.pool_cpu_ns = taken_ns >= 0 ? taken_ns : -1;  // a helper has ended meanwhile
      }
      return;
    }
  }

  // Counts a record for which there was no room.
  Span* lose() {
    lost.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }

  int64_t innermost() const { return depth_ > 0 ? open_[depth_ - 1].span : -1; }

  void add_allocation(uint64_t address, int64_t bytes) {
    const int64_t index = allocations.append();
    if (index < 0) {
      lose();
      return;
    }
    allocations[index] = {monotonic_ns(), address, bytes, innermost()};
  }

  const uint64_t session;
  const int64_t os_id;
  const uint64_t torch_id;
  const Clocks* helpers = nullptr;  // of the threads that help this one; nullptr: their clocks are not read
  std::atomic<int64_t> lost{0};
  Log<Span, 4096, 1024> spans;
  Log<Allocation, 4096, 1024> allocations;
  Log<int64_t, 65536, 1024> words;

 private:
  static constexpr int kMaxDepth = 512;
  struct Open {
    const void* owner;
    int64_t span;
  };

  int depth_ = 0;
  std::array<Open, kMaxDepth> open_{};
};

}  // namespace profkit::torch_source
