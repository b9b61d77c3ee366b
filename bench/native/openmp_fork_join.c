// An empty parallel region of OpenMP, timed: out[i] is the nanoseconds of round i. Between rounds the caller
// is busy for gap_ns. Build: gcc -O2 -shared -fPIC -fopenmp.
#include <omp.h>
#include <stdint.h>
#include <time.h>

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void openmp_fork_join(int threads, int64_t rounds, int64_t gap_ns, int64_t* out) {
  for (int64_t i = 0; i < rounds; ++i) {
    const int64_t begin = now_ns();
#pragma omp parallel num_threads(threads)
    __asm__ volatile("" ::: "memory");
    const int64_t end = now_ns();
    out[i] = end - begin;
    while (now_ns() < end + gap_ns) {
    }
  }
}
