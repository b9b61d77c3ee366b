// Measures the two limits that results are compared with: arithmetic (FMA loops, one per instruction set) and
// copying.
#include "runtime/peak.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "runtime/aligned_memory.h"
#include "runtime/check.h"
#include "runtime/fma_loop.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

constexpr int kRepetitions = 15;  // short and many: one of them is likely to have the machine to itself
constexpr double kRepetitionSeconds = 0.04;

template <class Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

FmaLoop* fma_loop_for(Simd level, bool is_double) {
  switch (level) {
#ifdef PROFKIT_HAS_AVX2
    case Simd::avx2:
      return is_double ? avx2::fma_loop_f64 : avx2::fma_loop_f32;
#endif
#ifdef PROFKIT_HAS_AVX512
    case Simd::avx512:
      return is_double ? avx512::fma_loop_f64 : avx512::fma_loop_f32;
#endif
#ifdef PROFKIT_HAS_NEON
    case Simd::neon:
      return is_double ? neon::fma_loop_f64 : neon::fma_loop_f32;
#endif
    default:
      return is_double ? generic::fma_loop_f64 : generic::fma_loop_f32;
  }
}

// Each of the two buffers is twice what all last-level caches hold together, four times where that is not too
// much memory; a thread's share of it must leave its own caches behind as well.
int64_t copy_buffer_bytes(int threads) {
  const int64_t caches = last_level_caches_bytes();
  const int64_t shared = std::max(2 * caches, std::min(4 * caches, int64_t{1} << 30));
  const int64_t shares = 4 * threads * std::max(cache_sizes().l1d_bytes, cache_sizes().l2_bytes);
  return std::max({shared, shares, int64_t{64} << 20});
}

}  // namespace

double peak_flops_per_s(Simd level, bool is_double, int threads) {
  FmaLoop* const loop = fma_loop_for(level, is_double);
  int64_t flops_per_iteration = 0;
  volatile double sink = 0;
  const auto run = [&](int64_t iterations) {
    return seconds_of([&] {
      parallel(threads, [&](int) {
        int64_t flops = 0;
        const double value = loop(iterations, &flops);
        if (value < 0) sink = value;  // never; keeps the loop's result alive
      });
    });
  };
  loop(1, &flops_per_iteration);
  int64_t iterations = 1 << 14;
  while (run(iterations) < kRepetitionSeconds / 4) iterations *= 2;
  iterations *= 4;
  double best_seconds = run(iterations);
  for (int i = 1; i < kRepetitions; ++i) best_seconds = std::min(best_seconds, run(iterations));
  const double flops = static_cast<double>(flops_per_iteration) * static_cast<double>(iterations) * threads;
  return flops / best_seconds;
}

double copy_bytes_per_s(int threads) {
  const int64_t bytes = copy_buffer_bytes(threads);
  AlignedMemory source(static_cast<size_t>(bytes)), target(static_cast<size_t>(bytes));
  const auto part = [&](int thread) { return split(bytes / 64, threads, thread); };
  parallel(threads, [&](int thread) {  // first touch by the thread that will copy
    const auto [begin, end] = part(thread);
    std::memset(source.data() + begin * 64, 1, static_cast<size_t>(end - begin) * 64);
    std::memset(target.data() + begin * 64, 2, static_cast<size_t>(end - begin) * 64);
  });
  double best_seconds = 1e30;
  for (int i = 0; i < kRepetitions; ++i) {
    best_seconds = std::min(best_seconds, seconds_of([&] {
                              parallel(threads, [&](int thread) {
                                const auto [begin, end] = part(thread);
                                std::memcpy(target.data() + begin * 64, source.data() + begin * 64,
                                            static_cast<size_t>(end - begin) * 64);
                              });
                            }));
  }
  return 2.0 * static_cast<double>(bytes) / best_seconds;
}

#ifdef __linux__
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTrips = 200, kTripBatches = 8, kStop = -1, kSpinsPerLook = 1024;
constexpr auto kMostTripTime = std::chrono::milliseconds(5);

// Waits until the other side has written; false: not before the deadline.
bool wait_for(const std::atomic<int>& line, int value, Clock::time_point deadline) {
  for (int spins = 1; line.load(std::memory_order_acquire) != value; ++spins) {
    if (spins % kSpinsPerLook == 0 && Clock::now() > deadline) return false;
  }
  return true;
}

// Odd values are the caller's, even ones the answer.
void answer_trips(std::atomic<int>& line) {
  for (int seen = 0; seen != kStop;) {
    int value = line.load(std::memory_order_acquire);
    if (value == seen) continue;
    seen = value;
    // Not a plain store: after a preemption here it would overwrite the order to stop.
    if (value % 2 == 1 && line.compare_exchange_strong(value, value + 1)) ++seen;
  }
}

bool run_on(int processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<size_t>(processor), &only);
  return sched_setaffinity(0, sizeof(only), &only) == 0;
}

// The least nanoseconds per trip; 0 when no batch was finished in time.
double least_trip_ns(std::atomic<int>& line) {
  const auto deadline = Clock::now() + kMostTripTime;
  double least = 0;
  int value = 1;
  for (int batch = 0; batch < kTripBatches; ++batch) {
    const auto start = Clock::now();
    for (int trip = 0; trip < kTrips; ++trip, value += 2) {
      line.store(value, std::memory_order_release);
      if (!wait_for(line, value + 1, deadline)) return least;
    }
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kTrips;
    least = least == 0 ? ns : std::min(least, ns);
  }
  return least;
}

}  // namespace

double round_trip_ns(int processor, int other) {
  cpu_set_t before;
  if (sched_getaffinity(0, sizeof(before), &before) != 0 || !run_on(processor)) return 0;
  alignas(128) std::atomic<int> line{0};
  std::atomic<bool> is_placed{false};
  double least = 0;
  try {
    std::thread answering([&] {
      is_placed = run_on(other);
      answer_trips(line);
    });
    least = least_trip_ns(line);
    line.store(kStop, std::memory_order_release);
    answering.join();
  } catch (const std::system_error&) {  // no more threads
  }
  sched_setaffinity(0, sizeof(before), &before);
  return is_placed ? least : 0;
}
#else
double round_trip_ns(int, int) { return 0; }
#endif

}  // namespace profkit
