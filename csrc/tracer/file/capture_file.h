// The capture file as a recording process uses it: created or joined, blocks collected and appended with one
// write() for many, counters added. Never blocks for a lock, never raises a signal; failures are counted.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "tracer/file/format.h"

namespace profkit::tracer {

// A descriptor with a high number, out of the program's way. A program may have closed all descriptors (a
// daemon does) and opened others with our numbers: then it is not intact, and is neither used nor closed.
class WatchedDescriptor {
 public:
  bool open(const char* path, int flags);
  bool is_intact() const;
  bool is_file(const struct stat& other) const;
  void close();
  int number() const { return fd_; }

 private:
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

class CaptureFile {
 public:
  // nullptr on success, otherwise why not. Makes the file when it is absent or empty.
  const char* open(const char* path);
  void close();

  // Blocks from now on carry `process_id`. Again in a fork child, which must not share the parent's lock.
  void start_process(uint64_t process_id);

  // The payload is the pieces one after the other, padded with zeros to 8. Collected, not yet written.
  void add_block(BlockType type, const void* payload, size_t bytes, const void* more = nullptr,
                 size_t more_bytes = 0);
  // Writes what was collected. false: at least one block is lost; lost_records() has grown by its records.
  bool write_out();
  uint64_t lost_records() const { return lost_records_; }

  // Adds to the counters in the header page; false: not possible now, try again later with the sum.
  bool add_counters(const FileCounters& amounts, bool is_last);

  const char* path() const { return path_; }

 private:
  // Opens it again if need be; false when the path has become another file.
  bool is_usable(WatchedDescriptor& descriptor, int flags) const;
  const char* write_header(int fd);
  const char* check_header(int fd);
  size_t write_whole_blocks(size_t from);
  size_t whole_blocks_within(size_t from, size_t bytes) const;
  void count_lost(size_t from);

  char path_[4096] = {};
  WatchedDescriptor data_;
  WatchedDescriptor counters_;  // pwrite() on a descriptor for appending would append
  dev_t device_ = 0;
  ino_t inode_ = 0;
  uint64_t capture_id_ = 0, process_id_ = 0;
  uint8_t* buffer_ = nullptr;
  size_t used_ = 0;
  bool is_overflowing_ = false;  // an automatic write_out() within add_block() failed
  uint64_t lost_records_ = 0;
};

// 64 bits from the kernel's generator; from clock and address if it has none.
uint64_t random_id();

}  // namespace profkit::tracer
