// Evicts the caller's data from the caches by writing through a buffer that is larger than all of them.
#include <mutex>

#include "runtime/aligned_memory.h"
#include "runtime/peak.h"
#include "runtime/threads.h"

namespace profkit {

int64_t flush_cache(int64_t bytes, int threads) {
  static std::mutex mutex;
  static AlignedMemory buffer;
  std::lock_guard<std::mutex> guard(mutex);
  if (bytes <= 0) bytes = 2 * last_level_cache_bytes();
  if (buffer.size() < static_cast<size_t>(bytes)) buffer = AlignedMemory(static_cast<size_t>(bytes));
  char* data = buffer.data();
  parallel(threads, [&](int thread) {  // each thread also cleans its own core's private caches
    const auto [begin, end] = split(bytes / 64, threads, thread);
    for (int64_t line = begin; line < end; ++line) {
      volatile char* cell = data + line * 64;
      *cell = static_cast<char>(*cell + 1);
    }
  });
  return bytes;
}

}  // namespace profkit
