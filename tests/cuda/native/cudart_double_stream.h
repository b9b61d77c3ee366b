// A stream of the double: work runs in order on a thread of its own while the host goes on, so that a missing
// wait shows. The SIMT layer runs one kernel at a time: streams take turns.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace cudart_double {

class WorkStream {
 public:
  WorkStream() : thread_([this] { work(); }) {}
  ~WorkStream() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void enqueue(std::function<void()> job) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return jobs_.empty() && !is_busy_; });
  }

 private:
  void work() {
    static std::mutex one_at_a_time;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !jobs_.empty() || is_over_; });
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      is_busy_ = true;
      lock.unlock();
      {
        const std::lock_guard<std::mutex> turn(one_at_a_time);
        job();
      }
      lock.lock();
      is_busy_ = false;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool is_busy_ = false, is_over_ = false;
  std::thread thread_;
};

}  // namespace cudart_double
