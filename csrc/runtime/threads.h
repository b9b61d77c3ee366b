// A persistent thread pool with a static split of the work: the same thread count always gives the same
// split, so results are bit-identical. The pool coexists with a framework's own threads in the same process:
// workers are created by the first job that needs them; after a job they poll for the next one for at most 2
// ms, yielding their core after the first 50 us, then sleep. Nothing spins in a job of more threads than the
// process has processors. One job runs at a time, callers queue; a call from inside a job runs serially. So
// the pool never has more busy threads than its largest job.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

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
// Bodies must not wait for each other: a call from inside a body runs its parts one after the other.
// An exception in a body reaches the caller after all parts have ended (the first one thrown wins).
void run_parallel(int threads, void (*body)(void* context, int thread), void* context);

template <class Body>
void parallel(int threads, Body&& body) {
  // Body deduces to a reference type for lvalues; the cast back needs the plain (maybe const) type.
  using Plain = std::remove_reference_t<Body>;
  if (threads <= 1) {
    body(0);
    return;
  }
  run_parallel(
      threads, [](void* context, int thread) { (*static_cast<Plain*>(context))(thread); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

}  // namespace profkit
