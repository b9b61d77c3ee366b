// The pool behind run_parallel. A job enters, every worker it needs gets it through its own slot, and the
// caller leaves when all are done. Waiting spins for some time, then sleeps;
// docs/kernels.md has the costs of both.
#include "runtime/threads.h"

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace profkit {
namespace {

using Clock = std::chrono::steady_clock;

// A waiting thread spins at first, which covers the launches within a kernel and in a tight loop of calls.
// Then it yields its core between polls, for example to another pool of the same process, for as long as a
// program takes between two operators; waking a sleeping thread takes tens of microseconds.
constexpr auto kEagerSpin = std::chrono::microseconds(50);
constexpr auto kSpin = std::chrono::milliseconds(2);
constexpr int kSpinsPerPoll = 32;  // of the clock

// Threads are started and counted in groups, so that with many of them neither the caller nor one cache line
// serves all: the caller starts its own group and the leader of each other group, which starts the rest.
constexpr int kGroup = 8;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `ready` or until the time limit; returns whether it is ready.
template <class Ready>
bool spin(Clock::duration limit, const Ready& ready) {
  if (ready()) return true;
  if (limit.count() == 0) return false;
  const Clock::time_point begin = Clock::now();
  for (Clock::duration waited{0}; waited < limit; waited = Clock::now() - begin) {
    for (int i = 0; i < kSpinsPerPoll; ++i) {
      relax();
      if (ready()) return true;
    }
    if (waited > kEagerSpin) std::this_thread::yield();
  }
  return false;
}

// A flag one thread raises and one thread waits for. Raising is one exchange, and a system call only when the
// waiter sleeps.
class Signal {
 public:
  void raise() {
    if (state_.exchange(kRaised, std::memory_order_acq_rel) != kAsleep) return;
    std::lock_guard<std::mutex> guard(mutex_);
    condition_.notify_one();
  }

  void wait_and_lower(Clock::duration spinning) {
    const auto raised = [this] { return state_.load(std::memory_order_acquire) == kRaised; };
    if (!spin(spinning, raised)) {
      std::unique_lock<std::mutex> guard(mutex_);
      int expected = kLowered;
      if (state_.compare_exchange_strong(expected, kAsleep, std::memory_order_acq_rel)) {
        condition_.wait(guard, raised);
      }
    }
    state_.store(kLowered, std::memory_order_relaxed);  // the next raise comes after this thread's answer
  }

 private:
  enum : int { kLowered, kRaised, kAsleep };
  std::atomic<int> state_{kLowered};
  std::mutex mutex_;
  std::condition_variable condition_;
};

// Counts parts that are still running; one thread waits for zero.
class Countdown {
 public:
  void start(int count) { state_.store(count, std::memory_order_relaxed); }

  void done() {
    if (state_.fetch_sub(1, std::memory_order_acq_rel) != kAsleep + 1) return;
    std::lock_guard<std::mutex> guard(mutex_);
    condition_.notify_one();
  }

  void wait(Clock::duration spinning) {
    const auto none = [this] { return (state_.load(std::memory_order_acquire) & ~kAsleep) == 0; };
    if (spin(spinning, none)) return;
    std::unique_lock<std::mutex> guard(mutex_);
    state_.fetch_or(kAsleep, std::memory_order_acq_rel);
    condition_.wait(guard, none);
  }

 private:
  static constexpr int kAsleep = 1 << 30;
  std::atomic<int> state_{0};
  std::mutex mutex_;
  std::condition_variable condition_;
};

// Processors that this process may run on now.
int usable_processors() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
#endif
  const unsigned all = std::thread::hardware_concurrency();
  return all == 0 ? 1 : static_cast<int>(all);
}

thread_local bool inside_body = false;

class ThreadPool {
 public:
  void run(int threads, void (*body)(void*, int), void* context) {
    std::lock_guard<std::mutex> one_job_at_a_time(entry_);
    grow(threads - 1);
    body_ = body;
    context_ = context;
    error_ = nullptr;
    threads_ = threads;
    // With more threads than processors, spinning keeps others from working.
    if (threads != checked_threads_) {
      checked_threads_ = threads;
      may_spin_.store(threads <= usable_processors(), std::memory_order_relaxed);
    }
    const int groups = (threads + kGroup - 1) / kGroup;
    for (int group = 1; group < groups; ++group) {
      slot_of(group * kGroup).members.start(std::min(kGroup, threads - group * kGroup) - 1);
    }
    running_.start(std::min(kGroup, threads) - 1 + groups - 1);
    for (int group = 1; group < groups; ++group) slot_of(group * kGroup).start.raise();
    raise_group(0);
    inside_body = true;
    run_part(0);
    inside_body = false;
    running_.wait(spinning());
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  struct alignas(128) Slot {  // own cache lines: raising one must not disturb the others
    Signal start;
    alignas(128) Countdown members;  // of the group that this thread leads
  };

  Slot& slot_of(int thread) { return *slots_[static_cast<size_t>(thread - 1)]; }

  Clock::duration spinning() const {
    return may_spin_.load(std::memory_order_relaxed) ? kSpin : Clock::duration::zero();
  }

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

  // Starts the others of the group that `leader` leads.
  void raise_group(int leader) {
    const int end = std::min(leader + kGroup, threads_);
    for (int thread = leader + 1; thread < end; ++thread) slot_of(thread).start.raise();
  }

  void serve(int thread, Slot& slot) {
    inside_body = true;
    for (;;) {
      slot.start.wait_and_lower(spinning());
      const int leader = thread / kGroup * kGroup;
      if (thread == leader) {
        raise_group(thread);
        run_part(thread);
        slot.members.wait(spinning());
        running_.done();
      } else {
        Countdown& group = leader == 0 ? running_ : slot_of(leader).members;
        run_part(thread);
        group.done();
      }
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
  int threads_ = 0, checked_threads_ = 0;
  std::atomic<bool> may_spin_{false};
  alignas(128) Countdown running_;  // the caller's group, and the leaders of the others
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

std::atomic<ThreadPool*> current_pool{nullptr};

// A forked child has none of the pool's threads, and its mutexes are in the state of the fork: it gets a new
// pool. The old one is left alone; freeing it would touch those mutexes.
void forget_pool_in_child() {
  current_pool.store(nullptr);
  inside_body = false;
}

ThreadPool& pool() {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool_in_child);
  (void)registered;
  ThreadPool* found = current_pool.load();
  if (found != nullptr) return *found;
  auto fresh = std::make_unique<ThreadPool>();
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
