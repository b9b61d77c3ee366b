// The thread behind CUPTI's flushes and clock pairs.
#include "tracer/cupti/flusher.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "tracer/core/background.h"
#include "tracer/core/clock.h"
#include "tracer/core/recorder.h"
#include "tracer/cupti/queue.h"
#include "tracer/cupti/watch.h"

namespace profkit::tracer {

std::atomic<uint64_t> cupti_buffers_completed{0};

namespace {

constexpr int64_t kMaxStillNs = 2'000'000'000;  // without a buffer coming back
constexpr int kClockTries = 5;

std::atomic<uint32_t> requested{0}, served{0};      // flushes that a thread waits for
std::atomic<uint32_t> forced{0}, forced_served{0};  // those of them that must bring everything
std::atomic<uint32_t> generation{0};                // of the thread that is to run; 0 none
std::atomic<uint32_t> running{0};                   // of the one that runs
uint32_t last_generation = 0;
const CuptiLibrary* library = nullptr;
uint32_t period_ms = 100;

void append_clock_pair() {
  ClockEntry best{};
  const auto read = [](uint64_t* ns) { return library->call.get_timestamp(ns) == cupti::kSuccess; };
  if (!take_pair(kClockTries, best, read)) return;
  DeviceClockEntry entry{{}, best.ticks, best.monotonic_ns, best.uncertainty_ns};
  DeviceAppender().append(entry);
}

void* run_flusher(void* argument) {
  const auto mine = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(argument));
  thread_state.quiet = 1;
  prctl(PR_SET_NAME, "profkit-cupti");
  append_clock_pair();
  while (generation.load() == mine) {
    const uint32_t wanted = requested.load();
    if (served.load() == wanted) {
      const timespec timeout{period_ms / 1000, static_cast<long>(period_ms % 1000) * 1'000'000};
      syscall(SYS_futex, &requested, FUTEX_WAIT_PRIVATE, wanted, &timeout, nullptr, 0);
    }
    if (generation.load() != mine) break;
    const uint32_t now = requested.load();
    const uint32_t forced_now = forced.load();
    library->call.flush_all(forced_served.load() == forced_now ? 0 : cupti::kFlushForced);
    forced_served.store(forced_now);
    account_for_synchronisations();
    append_clock_pair();
    served.store(now);
  }
  uint32_t last = mine;
  running.compare_exchange_strong(last, 0);
  return nullptr;
}

void wake() { syscall(SYS_futex, &requested, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0); }

void pause_shortly() {
  const timespec step{0, 100'000};
  nanosleep(&step, nullptr);
}

}  // namespace

bool start_cupti_flusher(const CuptiLibrary& used, uint32_t wanted_period_ms) {
  library = &used;
  period_ms = wanted_period_ms;
  if (++last_generation == 0) ++last_generation;
  generation.store(last_generation);
  running.store(last_generation);
  if (start_background(run_flusher, last_generation)) return true;
  forget_cupti_flusher();
  return false;
}

bool cupti_flusher_runs() { return running.load() != 0; }

bool flush_through_flusher(CuptiFlush what) {
  if (running.load() == 0) return false;
  const int saved_errno = errno;
  if (what == CuptiFlush::everything) forced.fetch_add(1);
  const uint32_t mine = requested.fetch_add(1) + 1;
  wake();
  uint64_t buffers = cupti_buffers_completed.load();
  int64_t since = monotonic_ns();
  bool is_served = false;
  while (!is_served && running.load() != 0 && monotonic_ns() - since < kMaxStillNs) {
    pause_shortly();
    is_served = static_cast<int32_t>(served.load() - mine) >= 0;
    const uint64_t now = cupti_buffers_completed.load();
    if (now != buffers) since = monotonic_ns();
    buffers = now;
  }
  errno = saved_errno;
  return is_served;
}

void stop_cupti_flusher() {
  generation.store(0);
  requested.fetch_add(1);
  wake();
  const int64_t start = monotonic_ns();
  while (running.load() != 0 && monotonic_ns() - start < kMaxStillNs) pause_shortly();
}

void forget_cupti_flusher() {
  generation.store(0);
  running.store(0);
  served.store(requested.load());
  forced_served.store(forced.load());
}

}  // namespace profkit::tracer
