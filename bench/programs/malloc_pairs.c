/* Times malloc + free: `run_pairs(bytes, pairs)` gives nanoseconds per pair. Called from Python, so that
   memray, which traces Python programs, runs the same code. */
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double run_pairs(long bytes, long pairs) {
  const double begin = now();
  for (long i = 0; i < pairs; ++i) {
    char* volatile memory = malloc((size_t)bytes);
    free(memory);
  }
  return (now() - begin) / (double)pairs;
}
