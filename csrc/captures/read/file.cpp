// Opens and checks capture files; every refusal says what to do next.
#include "captures/read/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "captures/read/blocks.h"
#include "captures/read/reader.h"
#include "tracer/file/crc32c.h"

namespace profkit::captures {
namespace {

constexpr const char* kRecordOne = "record one with: python -m profkit.trace --output run.profkit script.py";
constexpr uint32_t kMostHeaderBytes = 1u << 20;

// The bytes of a file, and how many of them could be read: it may have been cut meanwhile.
struct FileBytes {
  std::unique_ptr<uint8_t[]> data;
  size_t size = 0;
};

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Reads until this number of bytes, or the end.
void read_until(const OpenFile& file, size_t size, FileBytes& bytes) {
  while (bytes.size < size) {
    const ssize_t count = read(file.fd(), bytes.data.get() + bytes.size, size - bytes.size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw CaptureError{std::string("cannot be read: ") + std::strerror(errno)};
    if (count == 0) break;
    bytes.size += static_cast<size_t>(count);
  }
}

FileBytes read_bytes(const std::string& path) {
  const OpenFile file(path);
  if (file.fd() < 0 && errno == ENOENT) throw CaptureError{std::string("no such file; ") + kRecordOne};
  if (file.fd() < 0) throw CaptureError{std::string("cannot be opened: ") + std::strerror(errno)};
  struct stat facts{};
  if (fstat(file.fd(), &facts) != 0)
    throw CaptureError{std::string("cannot be read: ") + std::strerror(errno)};
  if (S_ISDIR(facts.st_mode)) throw CaptureError{"is a folder; name the capture file in it"};
  if (!S_ISREG(facts.st_mode)) throw CaptureError{"is not a regular file; copy the capture into one first"};
  // The size is taken once: a capture that still grows is read up to here. Not mapped: a file that is cut
  // while it is read would end the program with SIGBUS.
  const auto size = static_cast<size_t>(facts.st_size);
  FileBytes bytes{std::unique_ptr<uint8_t[]>(new uint8_t[std::max<size_t>(size, 1)]), 0};
  // The header first: a file that is not a capture may be large.
  read_until(file, std::min<size_t>(size, kMostHeaderBytes), bytes);
  checked_header(bytes.data.get(), bytes.size);
  read_until(file, size, bytes);
  return bytes;
}

}  // namespace

tracer::FileHeader checked_header(const uint8_t* data, size_t size) {
  if (size == 0) {
    throw CaptureError{std::string("is empty: the program ended before anything was recorded; ") +
                       kRecordOne};
  }
  if (std::memcmp(data, tracer::kFileMagic, std::min(size, sizeof tracer::kFileMagic)) != 0) {
    throw CaptureError{std::string("is not a profkit capture; ") + kRecordOne};
  }
  if (size < sizeof(tracer::FileHeader)) {
    throw CaptureError{"is cut off within its header (" + std::to_string(size) +
                       " bytes); copy it again or record a new one"};
  }
  const auto header = load<tracer::FileHeader>(data);
  if (header.version > tracer::kFormatVersion) {
    throw CaptureError{"was written by a newer profkit (format " + std::to_string(header.version) +
                       "; this one reads " + std::to_string(tracer::kFormatVersion) +
                       "); type: pip install --upgrade profkit"};
  }
  if (tracer::crc32c(0, data, offsetof(tracer::FileHeader, crc)) != header.crc || header.version == 0 ||
      header.header_bytes < tracer::kHeaderCountersOffset + sizeof(tracer::FileCounters) ||
      header.header_bytes > kMostHeaderBytes) {
    throw CaptureError{"has a damaged header (its checksum is wrong); copy it again or record a new one"};
  }
  if (size < header.header_bytes) {
    throw CaptureError{"is cut off within its header (" + std::to_string(size) + " of " +
                       std::to_string(header.header_bytes) + " bytes); copy it again or record a new one"};
  }
  return header;
}

Capture read_capture(const std::string& path, size_t max_rows) {
  try {
    const FileBytes bytes = read_bytes(path);
    return decode_capture(bytes.data.get(), bytes.size, max_rows);
  } catch (const CaptureError& error) {
    throw CaptureError{path + ": " + error.message};
  } catch (const std::bad_alloc&) {
    throw CaptureError{path + ": is too large for the memory of this machine"};
  }
}

}  // namespace profkit::captures
