// Holds a mutex for a scope. std::lock_guard needs std::mutex, which cannot be initialised again in a fork
// child.
#pragma once

#include <pthread.h>

#include "tracer/core/recorder.h"

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

// For the mutexes that fork() holds (session.cpp): the forking thread has them already, and fork handlers of
// other libraries may call the tracer.
class LockUnlessForking {
 public:
  explicit LockUnlessForking(pthread_mutex_t& mutex) : mutex_(mutex) {
    if (!thread_state.is_forking) pthread_mutex_lock(&mutex_);
  }
  ~LockUnlessForking() {
    if (!thread_state.is_forking) pthread_mutex_unlock(&mutex_);
  }
  LockUnlessForking(const LockUnlessForking&) = delete;
  LockUnlessForking& operator=(const LockUnlessForking&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace profkit::tracer
