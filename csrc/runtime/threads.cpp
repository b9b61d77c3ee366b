// The pool behind run_parallel. A job enters, every worker it needs gets it through its own slot, and the
// caller leaves when all are done. Waiting spins for some microseconds, then sleeps.
#include "runtime/threads.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace profkit {
namespace {

// Long enough to bridge two launches inside one kernel, short enough to leave the core to others after it.
constexpr int kSpins = 2000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A flag one thread raises and one thread waits for. Raising costs a system call only when the waiter sleeps.
class Signal {
 public:
  void raise() {
    raised_.store(true);
    // Sequential consistency: either this load sees the sleeper, or the sleeper's check sees the flag.
    if (asleep_.load()) {
      std::lock_guard<std::mutex> guard(mutex_);
      condition_.notify_one();
    }
  }

  void wait_and_lower() {
    for (int spin = 0; spin < kSpins && !raised_.load(std::memory_order_acquire); ++spin) relax();
    if (!raised_.load()) {
      std::unique_lock<std::mutex> guard(mutex_);
      asleep_.store(true);
      condition_.wait(guard, [this] { return raised_.load(); });
      asleep_.store(false);
    }
    raised_.store(false);
  }

 private:
  std::atomic<bool> raised_{false};
  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable condition_;
};

thread_local bool inside_body = false;

class Pool {
 public:
  void run(int threads, void (*body)(void*, int), void* context) {
    std::lock_guard<std::mutex> one_job_at_a_time(entry_);
    grow(threads - 1);
    body_ = body;
    context_ = context;
    error_ = nullptr;
    remaining_.store(threads - 1);
    for (int i = 0; i < threads - 1; ++i) slots_[static_cast<size_t>(i)]->start.raise();
    inside_body = true;
    run_part(0);
    inside_body = false;
    done_.wait_and_lower();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  struct alignas(128) Slot {  // own cache lines: raising one must not disturb the others
    Signal start;
  };

  void grow(int workers) {
    while (static_cast<int>(slots_.size()) < workers) {
      auto slot = std::make_unique<Slot>();
      const int thread = static_cast<int>(slots_.size()) + 1;
      slots_.reserve(slots_.size() + 1);  // so that nothing can fail once the thread runs
      // Detached: the pool is never destroyed, and joining while the process exits could deadlock.
      std::thread([this, thread, raw = slot.get()] { serve(thread, *raw); }).detach();
      slots_.push_back(std::move(slot));
    }
  }

  void serve(int thread, Slot& slot) {
    inside_body = true;
    for (;;) {
      slot.start.wait_and_lower();
      run_part(thread);
      if (remaining_.fetch_sub(1) == 1) done_.raise();
    }
  }

  void run_part(int thread) {
    try {
      body_(context_, thread);
    } catch (...) {
      std::lock_guard<std::mutex> guard(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  std::mutex entry_;
  std::vector<std::unique_ptr<Slot>> slots_;
  void (*body_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::atomic<int> remaining_{0};
  Signal done_;
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

std::atomic<Pool*> current_pool{nullptr};

// A forked child has none of the pool's threads, and its mutexes are as the fork found them: start anew.
// The old pool is left alone; freeing it would touch those mutexes.
void forget_pool_in_child() {
  current_pool.store(nullptr);
  inside_body = false;
}

Pool& pool() {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool_in_child);
  (void)registered;
  Pool* found = current_pool.load();
  if (found != nullptr) return *found;
  auto fresh = std::make_unique<Pool>();
  if (current_pool.compare_exchange_strong(found, fresh.get())) return *fresh.release();
  return *found;
}

}  // namespace

void run_parallel(int threads, void (*body)(void* context, int thread), void* context) {
  if (threads <= 1 || inside_body) {
    for (int thread = 0; thread < (threads < 1 ? 1 : threads); ++thread) body(context, thread);
    return;
  }
  pool().run(threads, body, context);
}

}  // namespace profkit
