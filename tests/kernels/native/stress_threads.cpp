// The thread pool for sanitizers: jobs of changing size from several callers at once, nested jobs, parts that
// throw, and pauses in which the workers fall asleep. Prints how many parts ran.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/threads.h"

namespace {

std::atomic<long> parts{0};

void call_jobs(int caller) {
  for (int round = 0; round < 150; ++round) {
    const int threads = 2 + (round * 7 + caller * 5) % 18;  // one and several groups of the pool
    std::vector<int> sums(static_cast<size_t>(threads), 0);
    try {
      profkit::parallel(threads, [&](int thread) {
        profkit::parallel(2, [&](int part) { sums[static_cast<size_t>(thread)] += part + 1; });
        if (round % 11 == 3 && thread == threads - 1) throw std::runtime_error("told to fail");
      });
    } catch (const std::runtime_error&) {
    }
    for (const int sum : sums) parts += sum == 3 ? 1 : 1000000;
    if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

int main() {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) callers.emplace_back(call_jobs, caller);
  for (std::thread& caller : callers) caller.join();
  std::printf("%ld\n", parts.load());
  return 0;
}
