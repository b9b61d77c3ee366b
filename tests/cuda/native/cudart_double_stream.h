// A stream of the double: work runs in order on a thread of its own while the host goes on, so that a missing
// wait shows. The SIMT layer runs one kernel at a time: streams take turns.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace cudart_double {

class WorkStream {
 public:
  WorkStream() : thread_([this] { work(); }) {}
  ~WorkStream();
  void enqueue(std::function<void()> job);
  void wait();

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool is_busy_ = false, is_over_ = false;
  std::thread thread_;
};

}  // namespace cudart_double
