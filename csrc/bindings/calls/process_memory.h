// Memory of this process through the kernel: no handler of a signal runs, and pages that are read-only are
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace profkit {

// Opened before a user's code is there.
class ProcessMemory {
 public:
  ProcessMemory();
  ~ProcessMemory();
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  // Fills with bytes of ones, which are NaN in every element type; false where that is impossible.
  bool spoil(char* first, size_t bytes) const;
  // Copies elements of `item_bytes` from these addresses in one go; false where one cannot be read.
  static bool read(const std::vector<const char*>& addresses, size_t item_bytes, char* into);

 private:
  int file_;
};

// A number of bytes from /proc/self/status, as VmRSS; -1 where the system does not report it.
int64_t status_bytes(const char* name);
// Gives freed memory back to the system and resets the high-water mark; false where the system cannot.
bool reset_high_water();

}  // namespace profkit
