// The capture file: header page, shared counters, blocks appended by one write each.
#include "tracer/file/capture_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tracer/core/chunks.h"
#include "tracer/core/clock.h"
#include "tracer/file/crc32c.h"
#include "tracer/file/device_format.h"

namespace profkit::tracer {
namespace {

// Many blocks per write(), and small compared with a cache.
constexpr size_t kFileBufferBytes = size_t{256} << 10;
constexpr int kLockTries = 200;

// The session's lock protects it. Not thread-local: the space for that is scarce in a library loaded late.
char reason[512];

const char* explain(const char* what, const char* path, const char* advice) {
  char error[128];
  const char* text = strerror_r(errno, error, sizeof(error));
  std::snprintf(reason, sizeof(reason), "%s %.200s: %s; %s", what, path, text, advice);
  return reason;
}

// flock() with a time limit: a stopped process may hold it.
bool lock_soon(int fd, int tries) {
  for (int i = 0; i < tries; ++i) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return errno == ENOLCK || errno == EOPNOTSUPP;
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  return false;
}

// Writing beyond RLIMIT_FSIZE also raises SIGXFSZ, which would end the process. Writers have it blocked.
void take_size_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  const timespec now{0, 0};
  sigtimedwait(&set, nullptr, &now);
}

bool write_at(int fd, const void* bytes, size_t size, off_t offset) {
  const ssize_t count = pwrite(fd, bytes, size, offset);
  if (count < 0 && errno == EFBIG) {
    take_size_signal();
    errno = EFBIG;
  }
  return count == static_cast<ssize_t>(size);
}

uint32_t words_of_event(uint64_t word) {
  switch (static_cast<EventKind>(word >> 60)) {
    case EventKind::begin:
    case EventKind::end:
      return 1;
    case EventKind::span_begin:
    case EventKind::allocate:
    case EventKind::unmap:
    case EventKind::usage:
    case EventKind::end_elsewhere:
      return 3;
    case EventKind::snapshot:
      return 1 + 2 * (static_cast<uint32_t>(word >> kTickBits) & kMaxArgument);
    default:
      return 2;
  }
}

bool is_record(uint64_t word) {
  switch (static_cast<EventKind>(word >> 60)) {
    case EventKind::payload:
    case EventKind::usage:
    case EventKind::time:
    case EventKind::snapshot:
    case EventKind::dropped:
      return false;
    default:
      return true;
  }
}

uint64_t records_in(const uint8_t* payload) {
  EventsHeader header;
  std::memcpy(&header, payload, sizeof(header));
  uint64_t count = 0;
  for (uint32_t at = 0; at < header.word_count;) {
    uint64_t word;
    std::memcpy(&word, payload + sizeof(header) + size_t{at} * 8, sizeof(word));
    count += is_record(word);
    at += words_of_event(word);
  }
  return count;
}

uint64_t device_records_in(const uint8_t* payload, uint32_t bytes) {
  uint64_t count = 0;
  for (uint32_t at = 0; at + sizeof(DeviceEntryHeader) <= bytes;) {
    DeviceEntryHeader header;
    std::memcpy(&header, payload + at, sizeof(header));
    const bool is_ours = header.kind == DeviceEntryKind::counts || header.kind == DeviceEntryKind::clock;
    count += is_ours ? 0 : 1;
    at += header.bytes;
  }
  return count;
}

BlockHeader header_at(const uint8_t* bytes) {
  BlockHeader header;
  std::memcpy(&header, bytes, sizeof(header));
  return header;
}

}  // namespace

uint64_t random_id() {
  uint64_t id = 0;
  if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != sizeof(id) || id == 0) {
    id = static_cast<uint64_t>(monotonic_ns()) * 0x9E3779B97F4A7C15 ^ static_cast<uint64_t>(getpid()) << 32;
  }
  return id;
}

bool WatchedDescriptor::open(const char* path, int flags) {
  const int fd = ::open(path, flags | O_CLOEXEC);
  fd_ = -1;
  if (fd < 0) return false;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t lowest = limit.rlim_cur > 1000 ? 900 : limit.rlim_cur / 2;
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, static_cast<int>(lowest));
  if (high >= 0) ::close(fd);
  fd_ = high >= 0 ? high : fd;
  struct stat status{};
  fstat(fd_, &status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

bool WatchedDescriptor::is_file(const struct stat& other) const {
  return device_ == other.st_dev && inode_ == other.st_ino;
}

bool WatchedDescriptor::is_intact() const {
  struct stat status;
  return fd_ >= 0 && fstat(fd_, &status) == 0 && is_file(status);
}

void WatchedDescriptor::close() {
  if (is_intact()) ::close(fd_);
  fd_ = -1;
}

bool CaptureFile::is_usable(WatchedDescriptor& descriptor, int flags) const {
  if (descriptor.is_intact()) return true;
  if (!descriptor.open(path_, flags)) return false;
  struct stat ours{};
  ours.st_dev = device_;
  ours.st_ino = inode_;
  if (descriptor.is_file(ours)) return true;
  descriptor.close();
  return false;
}

const char* CaptureFile::write_header(int fd) {
  uint8_t page[kHeaderPageBytes] = {};
  FileHeader header{};
  std::memcpy(header.magic, kFileMagic, sizeof(header.magic));
  header.version = kFormatVersion;
  header.header_bytes = kHeaderPageBytes;
  header.capture_id = capture_id_ = random_id();
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  header.created_unix_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  header.crc = crc32c(0, &header, offsetof(FileHeader, crc));
  std::memcpy(page, &header, sizeof(header));
  if (write_at(fd, page, sizeof(page), 0)) return nullptr;
  if (errno == 0) errno = ENOSPC;
  const char* why = explain("cannot write to", path_,
                            errno == EFBIG ? "raise the limit of file sizes" : "make room on the disk");
  if (ftruncate(fd, 0) != 0) return why;  // an empty file is not a damaged capture
  return why;
}

const char* CaptureFile::check_header(int fd) {
  FileHeader header{};
  const bool is_whole = pread(fd, &header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header)) &&
                        std::memcmp(header.magic, kFileMagic, sizeof(header.magic)) == 0 &&
                        header.crc == crc32c(0, &header, offsetof(FileHeader, crc));
  if (!is_whole || header.version != kFormatVersion) {
    std::snprintf(reason, sizeof(reason), "%.200s exists and is not %s; choose another name", path_,
                  is_whole ? "a capture of this version" : "a capture file");
    return reason;
  }
  capture_id_ = header.capture_id;
  return nullptr;
}

const char* CaptureFile::open(const char* path) {
  close();  // a fork child that is not recorded still has its parent's file
  path_[0] = '\0';
  if (path[0] != '/' && getcwd(path_, sizeof(path_) - 1) != nullptr) std::strcat(path_, "/");
  const size_t length = std::strlen(path_);
  if (length + std::strlen(path) >= sizeof(path_)) return "the path of the capture file is too long";
  std::strcpy(path_ + length, path);
  if (buffer_ == nullptr) buffer_ = static_cast<uint8_t*>(reserve_memory(kFileBufferBytes));
  if (buffer_ == nullptr) return "no memory for the tracer's buffers";

  const int fd = ::open(path_, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0)
    return explain("cannot write", path_, "check the folder and its rights, or choose another name");
  struct stat status;
  const char* why = nullptr;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    std::snprintf(reason, sizeof(reason), "%.200s is not a regular file; choose another name", path_);
    why = reason;
  } else {
    lock_soon(fd, kLockTries);  // without the lock: at worst two processes create the file at once
    fstat(fd, &status);
    errno = 0;
    why = status.st_size == 0 ? write_header(fd) : check_header(fd);
  }
  ::close(fd);
  if (why != nullptr) return why;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  used_ = 0;
  is_overflowing_ = false;
  if (!is_usable(data_, O_WRONLY | O_APPEND)) return explain("cannot append to", path_, "check its rights");
  is_usable(counters_, O_RDWR);
  return nullptr;
}

void CaptureFile::close() {
  data_.close();
  counters_.close();
}

void CaptureFile::start_process(uint64_t process_id) {
  counters_.close();
  process_id_ = process_id;
  used_ = 0;
  is_overflowing_ = false;
}

void CaptureFile::add_block(BlockType type, const void* payload, size_t bytes, const void* more,
                            size_t more_bytes) {
  const size_t padded = (bytes + more_bytes + 7) / 8 * 8;
  const size_t total = sizeof(BlockHeader) + padded;
  if (used_ + total > kFileBufferBytes && !write_out()) is_overflowing_ = true;
  if (total > kFileBufferBytes) return;
  uint8_t* const at = buffer_ + used_;
  std::memset(at + total - 8, 0, 8);
  std::memcpy(at + sizeof(BlockHeader), payload, bytes);
  if (more_bytes != 0) std::memcpy(at + sizeof(BlockHeader) + bytes, more, more_bytes);
  BlockHeader header{kBlockMagic, 0, type, static_cast<uint32_t>(padded), capture_id_, process_id_};
  std::memcpy(at, &header, sizeof(header));
  constexpr size_t kCovered = offsetof(BlockHeader, type);
  header.crc = crc32c(0, at + kCovered, total - kCovered);
  std::memcpy(at, &header, sizeof(header));
  used_ += total;
}

// Bytes of the whole blocks among the first `bytes` from `from` on.
size_t CaptureFile::whole_blocks_within(size_t from, size_t bytes) const {
  size_t whole = 0;
  while (from + whole < used_) {
    const size_t next = sizeof(BlockHeader) + header_at(buffer_ + from + whole).payload_bytes;
    if (whole + next > bytes) break;
    whole += next;
  }
  return whole;
}

// Continues after a partial write with the truncated block again: another process may have appended after the
// part, and the reader finds the next block by its magic number. Returns the offset of the first lost block.
size_t CaptureFile::write_whole_blocks(size_t from) {
  while (from < used_) {
    const ssize_t count = write(data_.number(), buffer_ + from, used_ - from);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EFBIG) take_size_signal();
    if (count <= 0) return from;
    const size_t whole = whole_blocks_within(from, static_cast<size_t>(count));
    if (whole == 0) return from;
    from += whole;
  }
  return from;
}

void CaptureFile::count_lost(size_t from) {
  while (from < used_) {
    const BlockHeader header = header_at(buffer_ + from);
    const uint8_t* const payload = buffer_ + from + sizeof(BlockHeader);
    if (header.type == BlockType::events) lost_records_ += records_in(payload);
    if (header.type == BlockType::device_records)
      lost_records_ += device_records_in(payload, header.payload_bytes);
    from += sizeof(BlockHeader) + header.payload_bytes;
  }
}

bool CaptureFile::write_out() {
  const bool was_overflowing = is_overflowing_;
  is_overflowing_ = false;
  if (used_ == 0) return !was_overflowing;
  const size_t written = is_usable(data_, O_WRONLY | O_APPEND) ? write_whole_blocks(0) : 0;
  const bool is_complete = written == used_;
  if (!is_complete) count_lost(written);
  used_ = 0;
  return is_complete && !was_overflowing;
}

bool CaptureFile::add_counters(const FileCounters& amounts, bool is_last) {
  constexpr size_t kCounts = sizeof(FileCounters) / sizeof(uint64_t);
  const int fd = is_usable(counters_, O_RDWR) ? counters_.number() : -1;
  if (fd < 0 || !lock_soon(fd, is_last ? kLockTries : 1)) return false;
  uint64_t counts[kCounts] = {}, more[kCounts];
  std::memcpy(more, &amounts, sizeof(more));
  bool is_done = pread(fd, counts, sizeof(counts), kHeaderCountersOffset) == sizeof(counts);
  for (size_t i = 0; i < kCounts; ++i) counts[i] += more[i];
  is_done = is_done && write_at(fd, counts, sizeof(counts), kHeaderCountersOffset);
  flock(fd, LOCK_UN);
  return is_done;
}

}  // namespace profkit::tracer
