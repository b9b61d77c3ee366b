// Threads of the tracer itself: the writer and CUPTI's flusher.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>

namespace profkit::tracer {

constexpr size_t kBackgroundStackBytes = 1 << 20;  // the threads' static TLS comes off it

// Starts run(number) on a detached thread with all signals blocked: the program's handlers run on its own
// threads. False: no thread could be made.
inline bool start_background(void* (*run)(void*), uint32_t number) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kBackgroundStackBytes);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, reinterpret_cast<void*>(uintptr_t{number}));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return error == 0;
}

}  // namespace profkit::tracer
