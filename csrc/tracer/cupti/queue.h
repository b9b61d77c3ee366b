// The queue of GPU records from CUPTI's callbacks to the writer: entries of device_format.h in chunks of a
// bounded pool. A lock protects the lists, never the copying; no callback waits for the writer's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/file/device_format.h"

namespace profkit::tracer {

constexpr size_t kDeviceChunkBytes = 64 << 10;

struct DeviceChunk {
  DeviceChunk* next;
  uint32_t bytes;
  uint32_t records;
  uint8_t* data;
};

// Records that this process's capture lost, could not decode or got unfinished.
struct DeviceCounters {
  std::atomic<uint64_t> dropped_by_cupti{0}, dropped_too_slow{0}, unknown{0}, cut{0}, unfinished{0};
  uint64_t dropped() const { return dropped_by_cupti.load() + dropped_too_slow.load(); }
};
extern DeviceCounters device_counts;

// False: no memory. Called again it does nothing.
bool prepare_device_queue();
// A capture begins: drops what is queued, and resets the counts.
void clear_device_queue();
// In a fork child: no other thread holds a chunk or the lock.
void reset_device_queue();
// All that waits, the oldest first; it must be returned.
DeviceChunk* collect_device_chunks();
void give_back_device_chunks(DeviceChunk* first);

// Appends entries; made by one callback for the time it runs.
class DeviceAppender {
 public:
  DeviceAppender() = default;
  ~DeviceAppender() { hand_over(); }
  DeviceAppender(const DeviceAppender&) = delete;
  DeviceAppender& operator=(const DeviceAppender&) = delete;

  // Sets the header. Without room the entry is counted as lost.
  template <class Entry>
  void append(Entry& entry) {
    entry.header = {Entry::kKind, sizeof(Entry)};
    append_bytes(&entry, sizeof(entry));
  }

 private:
  void append_bytes(const void* entry, uint32_t bytes);
  void hand_over();

  DeviceChunk* chunk_ = nullptr;
  bool is_full_ = false;  // there was no room even after waiting: do not wait again
};

}  // namespace profkit::tracer
