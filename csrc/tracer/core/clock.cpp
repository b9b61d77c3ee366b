// Chooses the clock and takes sync points.
#include "tracer/core/clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace profkit::tracer {

bool clock_is_tsc = false;

namespace {

constexpr int kSyncTries = 8;

bool processor_has_invariant_tsc() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx)) return false;
  return (edx & (1u << 8)) != 0;
#else
  return false;
#endif
}

// The kernel has watched the counter longer than we can: it uses another source when cores disagree.
bool kernel_trusts_tsc() {
  const int fd =
      open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[8] = {};
  const ssize_t count = read(fd, text, sizeof(text) - 1);
  close(fd);
  return count >= 3 && std::memcmp(text, "tsc", 3) == 0 && (text[3] == '\n' || text[3] == '\0');
}

}  // namespace

void choose_clock() {
#if defined(__x86_64__)
  const char* wanted = std::getenv("PROFKIT_TRACE_CLOCK");
  if (wanted != nullptr && std::strcmp(wanted, "tsc") == 0) {
    clock_is_tsc = true;
  } else if (wanted != nullptr && std::strcmp(wanted, "monotonic") == 0) {
    clock_is_tsc = false;
  } else {
    clock_is_tsc = processor_has_invariant_tsc() && kernel_trusts_tsc();
  }
#endif
}

ClockEntry take_sync_point() {
  ClockEntry best{};
  if (!clock_is_tsc) {
    best.monotonic_ns = monotonic_ns();
    best.ticks = static_cast<uint64_t>(best.monotonic_ns);
    return best;
  }
  take_pair(kSyncTries, best, [](uint64_t* ticks) {
    *ticks = read_ticks();
    return true;
  });
  return best;
}

}  // namespace profkit::tracer
