// The memory for event words: chunks of a pool that is reserved once and touched on demand. Threads take
// empty chunks and hand full ones over; the writer gives them back. No lock anywhere.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace profkit::tracer {

constexpr uint32_t kChunkWords =
    4096;  // 32 KiB: a write of this size costs little more per byte than a larger
// A thread's first chunk: most threads of a program record little, and each keeps the chunk it has.
constexpr uint32_t kSmallChunkWords = 512;

struct alignas(64) Chunk {
  // Complete events only. Release store by the owner after each event, acquire load by the writer.
  std::atomic<uint32_t> published;
  uint32_t flushed;  // the writer's: words that are in the file or given up
  uint64_t* words;
  uint32_t capacity;
  uint32_t thread;      // index of the owner
  uint32_t epoch;       // session in which it was taken: the writer writes no other's
  uint64_t first_word;  // of the owner's stream
  Chunk* next_full;
};

// Numbers 0..capacity-1: unused ones first, then the most recently returned. The tag distinguishes a number
// that was taken and returned meanwhile (ABA).
class IndexStack {
 public:
  static constexpr uint32_t kNone = ~0u;

  void use(std::atomic<uint32_t>* next, uint32_t capacity);
  void limit(uint32_t capacity) { capacity_.store(capacity, std::memory_order_relaxed); }
  void reset();
  uint32_t pop();
  void push(uint32_t index);
  uint32_t used() const { return fresh_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint64_t> head_{0};  // tag << 32 | index + 1; 0 in the low half: empty
  std::atomic<uint32_t> fresh_{0};
  std::atomic<uint32_t>* next_ = nullptr;
  std::atomic<uint32_t> capacity_{0};
};

// nullptr when the kernel has no memory. Pages are allocated when they are touched.
void* reserve_memory(size_t bytes);

// How much of the pool may be used; 0: no memory. The first call fixes its size (memory that threads of an
// earlier session may still write to is never moved): a later, larger request gets what there is.
uint32_t reserve_chunks(uint32_t buffer_mib);
// All chunks become free; only when no other thread can hold one: in a fork child.
void reset_chunks();

// nullptr when none is free. `wants_small` is a preference, `may_be_small` a condition.
Chunk* take_chunk(bool wants_small, bool may_be_small);
void give_back_chunk(Chunk* chunk);
void hand_over_chunk(Chunk* chunk);
// All chunks handed over so far, the oldest first.
Chunk* collect_full_chunks();
// Chunks handed over since the last collection.
uint32_t full_chunk_count();

}  // namespace profkit::tracer
