// The pool of chunks.
#include "tracer/core/chunks.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace profkit::tracer {

void IndexStack::use(std::atomic<uint32_t>* next, uint32_t capacity) {
  next_ = next;
  limit(capacity);
  reset();
}

void IndexStack::reset() {
  head_.store(0, std::memory_order_relaxed);
  fresh_.store(0, std::memory_order_release);
}

uint32_t IndexStack::pop() {
  uint64_t head = head_.load(std::memory_order_acquire);
  while ((head & 0xFFFFFFFF) != 0) {
    const uint32_t index = static_cast<uint32_t>(head) - 1;
    const uint64_t tag = (head >> 32) + 1;
    const uint64_t next = next_[index].load(std::memory_order_relaxed);
    if (head_.compare_exchange_weak(head, tag << 32 | next, std::memory_order_acquire)) return index;
  }
  uint32_t fresh = fresh_.load(std::memory_order_relaxed);
  while (fresh < capacity_.load(std::memory_order_relaxed)) {
    if (fresh_.compare_exchange_weak(fresh, fresh + 1, std::memory_order_acq_rel)) return fresh;
  }
  return kNone;
}

void IndexStack::push(uint32_t index) {
  uint64_t head = head_.load(std::memory_order_relaxed);
  uint64_t wanted;
  do {
    next_[index].store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    wanted = ((head >> 32) + 1) << 32 | (index + 1);
  } while (!head_.compare_exchange_weak(head, wanted, std::memory_order_release, std::memory_order_relaxed));
}

void* reserve_memory(size_t bytes) {
  // The system call itself: mmap() may be the allocation door's.
  const long address = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
  if (address == -1) return nullptr;
  void* memory = reinterpret_cast<void*>(address);
  // Huge pages would make one touched chunk cost 2 MiB. A kernel without them refuses.
  const int saved_errno = errno;
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  errno = saved_errno;
  return memory;
}

namespace {

struct ChunkPool {
  Chunk* chunks = nullptr;  // large ones, then small ones
  uint32_t large_count = 0, small_count = 0;
  uint64_t* words = nullptr;
  uint32_t buffer_mib = 0;
};

// A quarter for first chunks: at 32 MiB 2048 threads can record at the same time before large ones go.
uint32_t small_count_of(uint32_t buffer_mib) {
  return static_cast<uint32_t>((size_t{buffer_mib} << 20) / 4 / (kSmallChunkWords * 8));
}
uint32_t large_count_of(uint32_t buffer_mib) {
  return static_cast<uint32_t>((size_t{buffer_mib} << 20) * 3 / 4 / (kChunkWords * 8));
}

ChunkPool pool;
IndexStack large_chunks, small_chunks;
std::atomic<Chunk*> full_chunks{nullptr};
std::atomic<uint32_t> full_count{0};

Chunk* prepare(uint32_t number) {
  Chunk& chunk = pool.chunks[number];
  const bool is_small = number >= pool.large_count;
  chunk.words = is_small ? pool.words + size_t{pool.large_count} * kChunkWords +
                               size_t{number - pool.large_count} * kSmallChunkWords
                         : pool.words + size_t{number} * kChunkWords;
  chunk.capacity = is_small ? kSmallChunkWords : kChunkWords;
  chunk.flushed = 0;
  chunk.next_full = nullptr;
  chunk.published.store(0, std::memory_order_relaxed);
  return &chunk;
}

Chunk* pop(IndexStack& stack, uint32_t offset) {
  const uint32_t index = stack.pop();
  return index == IndexStack::kNone ? nullptr : prepare(index + offset);
}

}  // namespace

uint32_t reserve_chunks(uint32_t buffer_mib) {
  if (pool.words == nullptr) {
    const size_t bytes = size_t{buffer_mib} << 20;
    ChunkPool made;
    made.buffer_mib = buffer_mib;
    made.small_count = small_count_of(buffer_mib);
    made.large_count = large_count_of(buffer_mib);
    const size_t count = size_t{made.small_count} + made.large_count;
    void* memory = reserve_memory(bytes + count * (sizeof(Chunk) + sizeof(std::atomic<uint32_t>)));
    if (memory == nullptr) return 0;
    made.words = static_cast<uint64_t*>(memory);
    made.chunks = reinterpret_cast<Chunk*>(static_cast<uint8_t*>(memory) + bytes);
    auto* next = reinterpret_cast<std::atomic<uint32_t>*>(made.chunks + count);
    pool = made;
    large_chunks.use(next, made.large_count);
    small_chunks.use(next + made.large_count, made.small_count);
  }
  const uint32_t granted = buffer_mib < pool.buffer_mib ? buffer_mib : pool.buffer_mib;
  large_chunks.limit(large_count_of(granted));
  small_chunks.limit(small_count_of(granted));
  return granted;
}

void reset_chunks() {
  large_chunks.reset();
  small_chunks.reset();
  full_chunks.store(nullptr);
  full_count.store(0);
}

Chunk* take_chunk(bool wants_small, bool may_be_small) {
  Chunk* chunk = nullptr;
  if (wants_small && may_be_small) chunk = pop(small_chunks, pool.large_count);
  if (chunk == nullptr) chunk = pop(large_chunks, 0);
  if (chunk == nullptr && may_be_small) chunk = pop(small_chunks, pool.large_count);
  return chunk;
}

void give_back_chunk(Chunk* chunk) {
  const uint32_t number = static_cast<uint32_t>(chunk - pool.chunks);
  if (number < pool.large_count) {
    large_chunks.push(number);
  } else {
    small_chunks.push(number - pool.large_count);
  }
}

void hand_over_chunk(Chunk* chunk) {
  Chunk* head = full_chunks.load(std::memory_order_relaxed);
  do {
    chunk->next_full = head;
  } while (
      !full_chunks.compare_exchange_weak(head, chunk, std::memory_order_release, std::memory_order_relaxed));
  full_count.fetch_add(1, std::memory_order_relaxed);
}

Chunk* collect_full_chunks() {
  full_count.store(0, std::memory_order_relaxed);
  Chunk* newest = full_chunks.exchange(nullptr, std::memory_order_acquire);
  Chunk* oldest = nullptr;
  while (newest != nullptr) {
    Chunk* const older = newest->next_full;
    newest->next_full = oldest;
    oldest = newest;
    newest = older;
  }
  return oldest;
}

uint32_t full_chunk_count() { return full_count.load(std::memory_order_relaxed); }

}  // namespace profkit::tracer
