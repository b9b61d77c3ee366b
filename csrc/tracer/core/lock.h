// Holds a mutex for a scope. std::lock_guard needs std::mutex, which cannot be made anew in a fork's child.
#pragma once

#include <pthread.h>

namespace profkit::tracer {

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace profkit::tracer
