// The recording that runs: its number, the logs of all threads that took part, and names by number.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "event_log.h"

namespace profkit::torch_source {

// Names live as long as the process, so that a number means the same in every recording.
class Names {
 public:
  int32_t number_of(std::string_view name) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    const int32_t number = static_cast<int32_t>(texts_.size());
    texts_.emplace_back(name);
    numbers_.emplace(texts_.back(), number);
    return number;
  }

  const char* text(int32_t number) {
    std::lock_guard<std::mutex> guard(mutex_);
    return texts_[static_cast<size_t>(number)].c_str();
  }

  std::vector<std::string> all() {
    std::lock_guard<std::mutex> guard(mutex_);
    return {texts_.begin(), texts_.end()};
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> texts_;  // does not move what it holds
  std::unordered_map<std::string_view, int32_t> numbers_;
};

// Leaked on purpose: a thread may still end an operator while the process is torn down.
inline Names& names() {
  static Names* const instance = new Names;
  return *instance;
}

// A thread's own way from a name's address to its number; compares the text, because addresses are used
// again.
class NameCache {
 public:
  int32_t number_of(const char* name) {
    Entry& entry = entries_[(reinterpret_cast<uintptr_t>(name) >> 3) % kEntries];
    if (entry.text == nullptr || std::strcmp(entry.text, name) != 0) {
      entry.number = names().number_of(name);
      entry.text = names().text(entry.number);
    }
    return entry.number;
  }

 private:
  static constexpr size_t kEntries = 1024;
  struct Entry {
    const char* text = nullptr;
    int32_t number = 0;
  };
  std::array<Entry, kEntries> entries_{};
};

struct Thread {
  std::shared_ptr<ThreadLog> log;  // also held by the session, which may end first
  NameCache names;
};

class Session {
 public:
  // 0 while nothing records.
  std::atomic<uint64_t> running{0};

  Clocks helpers;  // changed only while nothing records

  void start() {
    std::lock_guard<std::mutex> guard(mutex_);
    logs_.clear();
    running.store(++last_);
  }

  std::vector<std::shared_ptr<ThreadLog>> stop() {
    running.store(0);
    std::lock_guard<std::mutex> guard(mutex_);
    return std::move(logs_);
  }

  std::shared_ptr<ThreadLog> new_log(uint64_t session, uint64_t torch_id) {
    auto log = std::make_shared<ThreadLog>(session, syscall(SYS_gettid), torch_id);
    std::lock_guard<std::mutex> guard(mutex_);
    logs_.push_back(log);
    return log;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<ThreadLog>> logs_;
  uint64_t last_ = 0;
};

inline Session& session() {
  static Session* const instance = new Session;
  return *instance;
}

// The calling thread, when something records; its log belongs to that recording.
inline Thread* recording_thread(uint64_t (*torch_id)()) {
  const uint64_t running = session().running.load(std::memory_order_relaxed);
  if (running == 0) return nullptr;
  static thread_local Thread thread;
  if (thread.log == nullptr || thread.log->session != running)
    thread.log = session().new_log(running, torch_id());
  return &thread;
}

}  // namespace profkit::torch_source
