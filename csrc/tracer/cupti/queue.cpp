// Chunks between CUPTI and the writer.
#include "tracer/cupti/queue.h"

#include <pthread.h>
#include <time.h>

#include <cstring>

#include "tracer/core/chunks.h"
#include "tracer/core/clock.h"
#include "tracer/core/lock.h"
#include "tracer/core/recorder.h"
#include "tracer/file/writer.h"

namespace profkit::tracer {

DeviceCounters device_counts;

namespace {

constexpr uint32_t kChunks = 512;  // 32 MiB, touched on demand
constexpr uint32_t kWaitingToWake = 16;
constexpr int64_t kMaxStallNs = 200'000'000;
constexpr long kStallStepNs = 200'000;

pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
uint8_t* memory = nullptr;
DeviceChunk chunks[kChunks];
DeviceChunk* free_chunks = nullptr;
DeviceChunk* first_waiting = nullptr;
DeviceChunk* last_waiting = nullptr;
uint32_t waiting_count = 0;

void free_all() {
  free_chunks = first_waiting = last_waiting = nullptr;
  waiting_count = 0;
  for (uint32_t i = kChunks; i > 0; --i) {
    chunks[i - 1] = {free_chunks, 0, 0, memory + (i - 1) * kDeviceChunkBytes};
    free_chunks = &chunks[i - 1];
  }
}

DeviceChunk* take_free() {
  const Lock lock(queue_mutex);
  DeviceChunk* const chunk = free_chunks;
  if (chunk == nullptr) return nullptr;
  free_chunks = chunk->next;
  chunk->bytes = chunk->records = 0;
  return chunk;
}

// The writer may be behind: for a while the callback waits for it rather than lose records.
DeviceChunk* take_free_or_wait() {
  DeviceChunk* chunk = take_free();
  const int64_t start = monotonic_ns();
  while (chunk == nullptr && recording.load() != 0 && monotonic_ns() - start < kMaxStallNs) {
    wake_writer();
    const timespec step{0, kStallStepNs};
    nanosleep(&step, nullptr);
    chunk = take_free();
  }
  return chunk;
}

}  // namespace

bool prepare_device_queue() {
  const Lock lock(queue_mutex);
  if (memory != nullptr) return true;
  memory = static_cast<uint8_t*>(reserve_memory(kChunks * kDeviceChunkBytes));
  if (memory == nullptr) return false;
  free_all();
  return true;
}

void clear_device_queue() {
  give_back_device_chunks(collect_device_chunks());
  device_counts.dropped_by_cupti = 0;
  device_counts.dropped_too_slow = 0;
  device_counts.unknown = 0;
  device_counts.cut = 0;
  device_counts.unfinished = 0;
}

void reset_device_queue() {
  pthread_mutex_init(&queue_mutex, nullptr);
  if (memory != nullptr) free_all();
  clear_device_queue();
}

DeviceChunk* collect_device_chunks() {
  const Lock lock(queue_mutex);
  DeviceChunk* const first = first_waiting;
  first_waiting = last_waiting = nullptr;
  waiting_count = 0;
  return first;
}

void give_back_device_chunks(DeviceChunk* first) {
  const Lock lock(queue_mutex);
  while (first != nullptr) {
    DeviceChunk* const next = first->next;
    first->next = free_chunks;
    free_chunks = first;
    first = next;
  }
}

void DeviceAppender::append_bytes(const void* entry, uint32_t bytes) {
  if (chunk_ != nullptr && chunk_->bytes + bytes > kDeviceChunkBytes) hand_over();
  if (chunk_ == nullptr && !is_full_) {
    chunk_ = take_free_or_wait();
    is_full_ = chunk_ == nullptr;
  }
  if (chunk_ == nullptr) {
    device_counts.dropped_too_slow.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::memcpy(chunk_->data + chunk_->bytes, entry, bytes);
  chunk_->bytes += bytes;
  ++chunk_->records;
}

void DeviceAppender::hand_over() {
  if (chunk_ == nullptr) return;
  bool wakes = false;
  {
    const Lock lock(queue_mutex);
    chunk_->next = nullptr;
    (last_waiting == nullptr ? first_waiting : last_waiting->next) = chunk_;
    last_waiting = chunk_;
    wakes = ++waiting_count >= kWaitingToWake;
  }
  chunk_ = nullptr;
  if (wakes) wake_writer();
}

}  // namespace profkit::tracer
