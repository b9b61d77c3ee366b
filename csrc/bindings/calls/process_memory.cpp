// /proc/self/mem, process_vm_readv and the resident set.
#include "bindings/calls/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#ifdef __linux__
#include <malloc.h>
#include <sys/uio.h>
#endif

namespace profkit {
namespace {

// The kernel reads a little less than 2 GiB in one call, and says that it read less than was asked for.
constexpr size_t kMostAtOnce = size_t{1} << 30;

}  // namespace

ProcessMemory::ProcessMemory() : file_(open("/proc/self/mem", O_RDWR | O_CLOEXEC)) {}

ProcessMemory::~ProcessMemory() {
  if (file_ >= 0) ::close(file_);
}

bool ProcessMemory::spoil(char* first, size_t bytes) const {
  static const std::vector<unsigned char> ones(1 << 16, 0xFF);
  if (file_ < 0) {
    std::memset(first, 0xFF, bytes);
    return true;
  }
  while (bytes > 0) {
    const ssize_t written = pwrite(file_, ones.data(), std::min(bytes, ones.size()),
                                   static_cast<off_t>(reinterpret_cast<uintptr_t>(first)));
    if (written <= 0) return false;
    first += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

bool ProcessMemory::read(const std::vector<const char*>& addresses, size_t item_bytes, char* into) {
  if (item_bytes > kMostAtOnce) {
    for (const char* address : addresses) {
      for (size_t done = 0; done < item_bytes; done += kMostAtOnce) {
        const size_t piece = std::min(item_bytes - done, kMostAtOnce);
        if (!read({address + done}, piece, into)) return false;
        into += piece;
      }
    }
    return true;
  }
#ifdef __linux__
  std::vector<iovec> places;
  for (const char* address : addresses) places.push_back({const_cast<char*>(address), item_bytes});
  const iovec local = {into, item_bytes * addresses.size()};
  const ssize_t taken = process_vm_readv(getpid(), &local, 1, places.data(), places.size(), 0);
  if (taken == static_cast<ssize_t>(local.iov_len)) return true;
  // Where the call itself is not allowed, as in some containers, memory is read directly.
  if (taken >= 0 || (errno != EPERM && errno != ENOSYS)) return false;
#endif
  for (const char* address : addresses) {
    std::memcpy(into, address, item_bytes);
    into += item_bytes;
  }
  return true;
}

int64_t status_bytes(const char* name) {
  std::FILE* status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return -1;
  char line[256];
  const size_t length = std::strlen(name);
  long long found = -1;
  while (found < 0 && std::fgets(line, sizeof line, status) != nullptr) {
    if (std::strncmp(line, name, length) == 0 && line[length] == ':') {
      if (std::sscanf(line + length + 1, "%lld", &found) != 1) break;
    }
  }
  std::fclose(status);
  return found < 0 ? -1 : found * 1024;
}

bool reset_high_water() {
#ifdef __GLIBC__
  // Memory that the C library kept from earlier calls would hide what this call needs.
  malloc_trim(0);
#endif
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_reset = write(file, "5", 1) == 1;
  ::close(file);
  return is_reset;
}

}  // namespace profkit
