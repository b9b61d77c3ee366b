// A persistent pool of threads with static work split: the same thread count always gives the same split,
// hence the same bits.
#pragma once

#include <cstdint>

namespace profkit {

// Half-open range [begin, end) of part `index` of `parts` when `count` items are split evenly.
struct Range {
  int64_t begin, end;
};
inline Range split(int64_t count, int64_t parts, int64_t index) {
  return {count * index / parts, count * (index + 1) / parts};
}

// Runs body(thread) for thread = 0..threads-1, one each, and returns when all are done. The caller is
// thread 0. Idle threads sleep. Does not allocate once the pool has grown to `threads`.
// `body` is a plain function pointer plus context so that no std::function is made per call.
void run_parallel(int threads, void (*body)(void* context, int thread), void* context);

template <class Body>
void parallel(int threads, Body&& body) {
  if (threads <= 1) {
    body(0);
    return;
  }
  run_parallel(
      threads, [](void* context, int thread) { (*static_cast<Body*>(context))(thread); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace profkit
