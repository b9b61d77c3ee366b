#include "cudart_double_stream.h"

#include <utility>

namespace cudart_double {
namespace {

std::mutex& device() {
  static std::mutex one_at_a_time;
  return one_at_a_time;
}

}  // namespace

WorkStream::~WorkStream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkStream::enqueue(std::function<void()> job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void WorkStream::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && !is_busy_; });
}

void WorkStream::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !jobs_.empty() || is_over_; });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    is_busy_ = true;
    lock.unlock();
    {
      const std::lock_guard<std::mutex> turn(device());
      job();
    }
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace cudart_double
