// Drives the recorder from many threads; built with each sanitizer. Arguments: what to do and the capture
// file. Prints what it did, for the test to compare with what the file holds.
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tracer/core/api.h"
#include "tracer/core/recorder.h"
#include "tracer/core/threads.h"

// The disk: takes the place of libc's write() in this program.
std::atomic<unsigned> disk_delay_us{0};

extern "C" ssize_t write(int fd, const void* bytes, size_t size) {
  if (disk_delay_us != 0) usleep(disk_delay_us);
  return syscall(SYS_write, fd, bytes, size);
}

// The clock likewise: how far it is ahead, for all and for one thread.
std::atomic<int64_t> clock_ahead_s{0};
thread_local int64_t thread_ahead_s = 0;
// Plays a signal handler: called once, when an event reads the clock.
thread_local void (*interruption)() = nullptr;

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (interruption != nullptr) std::exchange(interruption, nullptr)();
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_MONOTONIC) now->tv_sec += clock_ahead_s + thread_ahead_s;
  return static_cast<int>(result);
}

namespace {

using namespace profkit::tracer;

const profkit_tracer_api* const api = profkit_tracer(PROFKIT_TRACER_API_VERSION);

void require(bool is_true, const char* what) {
  if (is_true) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::abort();
}

void start_or_die(const std::string& path, const char* options = nullptr) {
  const char* why = api->start(path.c_str(), options);
  require(why == nullptr, why);
}

uint32_t label_of(const std::string& name) { return api->label(name.data(), name.size(), nullptr, 0); }

void in_threads(int count, void (*work)(int)) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

void record_every_kind(int thread) {
  const uint32_t outer = label_of("outer"), inner = label_of("inner " + std::to_string(thread));
  for (uint64_t i = 0; i < 20'000; ++i) {
    const uint64_t token = api->begin_with_payload(outer, PROFKIT_PAYLOAD_UINT64, i);
    const uint64_t nested = api->begin(inner);
    ThreadRecorder* recorder = this_thread();
    recorder->allocate(AllocationCall::malloc, reinterpret_cast<void*>((thread + 1) << 20), 4096);
    recorder->release(AllocationCall::free, reinterpret_cast<void*>((thread + 1) << 20));
    recorder->count_small_allocation(8);
    api->end(nested);
    if (i % 100 == 0) api->mark(outer, 0, 0);
    if (i % 100 == 1) api->span_end(api->span_begin(inner, 0, 0));
    api->end(token);
  }
  require(!this_thread()->end_innermost(99), "nothing is open in this group");
}

void many_threads(const std::string& path) {
  start_or_die(path);
  in_threads(4, record_every_kind);
  api->stop();
}

void record_briefly(int) {
  const uint32_t label = label_of("brief");
  for (int i = 0; i < 3; ++i) api->end(api->begin(label));
}

void short_threads(const std::string& path) {
  start_or_die(path);
  for (int wave = 0; wave < 200; ++wave) in_threads(16, record_briefly);
  api->stop();
}

std::atomic<bool> goes_on{true};
std::atomic<int> restless_threads{0};

void record_until_told(int thread) {
  const uint32_t label = label_of("restless");
  ++restless_threads;
  while (goes_on.load(std::memory_order_relaxed)) {
    const uint64_t token = api->begin(label);
    if (thread == 0) {  // without malloc: AddressSanitizer's may be locked for ever in a fork child
      char name[32];
      const int bytes = std::snprintf(name, sizeof(name), "name %d", static_cast<int>(token % 100));
      api->label(name, static_cast<size_t>(bytes), nullptr, 0);
    }
    api->end(token);
  }
}

void restarts(const std::string& path) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(record_until_told, i);
  for (int run = 0; run < 30; ++run) {
    start_or_die(path + "." + std::to_string(run), run % 2 == 0 ? "buffer_mib=4" : "buffer_mib=2,flush_ms=1");
    const uint64_t token = api->begin(label_of("run"));
    usleep(2000);
    api->flush();
    api->end(token);
    require(api->stop() == nullptr, "stop");
  }
  goes_on = false;
  for (std::thread& thread : threads) thread.join();
  require(api->stop() != nullptr, "a second stop is refused");
}

std::atomic<uint64_t> attempted{0};

void mark_as_fast_as_possible(int) {
  const uint32_t label = label_of("fast");
  const uint64_t outer = api->begin(label_of("outer"));
  for (int i = 0; i < 400'000; ++i) api->mark(label, 0, 0);
  attempted += 400'000;
  api->end(outer);
}

void exhaustion(const std::string& path) {
  start_or_die(path, "buffer_mib=1");
  disk_delay_us = 300'000;  // longer than a thread waits for room
  in_threads(6, mark_as_fast_as_possible);
  disk_delay_us = 0;
  api->stop();
  std::printf("%llu %llu\n", static_cast<unsigned long long>(attempted.load()),
              static_cast<unsigned long long>(api->dropped()));
}

constexpr int kNames = 20'000;
std::atomic<uint32_t> ids[kNames];

void intern_names(int thread) {
  for (int i = 0; i < kNames; ++i) {
    const int name = (i + thread * kNames / 8) % kNames;
    const uint32_t id = label_of("name " + std::to_string(name));
    uint32_t known = 0;
    require(ids[name].compare_exchange_strong(known, id) || known == id, "one name has one id");
    if (thread == 0) api->mark(id, PROFKIT_PAYLOAD_INT64, static_cast<uint64_t>(name));
  }
}

void names(const std::string& path) {
  start_or_die(path);
  in_threads(8, intern_names);
  api->stop();
}

void too_many_names(const std::string& path) {
  start_or_die(path);
  for (int i = 0; i < 300'000; ++i) api->mark(label_of("name " + std::to_string(i)), 0, 0);
  api->stop();
}

void forks(const std::string& path) {
  start_or_die(path);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(record_until_told, 0);
  const uint64_t outer = api->begin(label_of("inherited"));
  while (restless_threads != 2) usleep(1000);
  usleep(20'000);  // the writer has started, too: threads that start call malloc
  for (int child = 0; child < 20; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      record_briefly(0);
      in_threads(2, record_briefly);
      api->stop();
      _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    require(status == 0, "the child ended normally");
  }
  api->end(outer);
  goes_on = false;
  for (std::thread& thread : threads) thread.join();
  api->stop();
}

// Each thread ends the ranges that the one before it opened, many times the depth of a stack.
std::atomic<uint64_t> handed_over{0};

void foreign_ends(const std::string& path) {
  start_or_die(path);
  const uint32_t label = label_of("given away");
  std::thread receiver([] {
    for (int i = 0; i < 3000; ++i) {
      uint64_t token = 0;
      while ((token = handed_over.exchange(0)) == 0) std::this_thread::yield();
      api->end(token);
    }
  });
  for (int i = 0; i < 3000; ++i) {
    const uint64_t token = api->begin(label);
    require(token != 0, "the stack does not fill up");
    handed_over = token;
    while (handed_over != 0) std::this_thread::yield();
  }
  receiver.join();
  api->stop();
}

// 2^43 ns are 2.4 hours.
void clock_jumps(const std::string& path) {
  start_or_die(path);
  const uint64_t outer = api->begin(label_of("outer"));
  const uint64_t idle = api->begin(label_of("five idle hours"));
  api->flush();
  clock_ahead_s = 5 * 3600;
  api->end(idle);
  const uint64_t back = api->begin(label_of("on a core that is behind"));
  thread_ahead_s = -1;
  api->end(back);
  api->end(api->begin(label_of("still behind")));
  thread_ahead_s = 0;
  for (int i = 0; i < 3000; ++i) api->end(api->begin(label_of("many")));  // into the next chunk
  clock_ahead_s = 10 * 3600;
  api->end(outer);
  api->stop();
}

// In sum more than the chunk has room for.
void record_in_handler() {
  for (int i = 0; i < 30; ++i) {
    api->mark(label_of("in handler"), PROFKIT_PAYLOAD_INT64, 1);
    require(api->begin(label_of("in handler")) == 0, "refused");
  }
  ThreadRecorder* const recorder = this_thread();  // none while the tracer takes a new chunk
  require(recorder == nullptr || !recorder->end_innermost(kNoGroup), "refused");
}

void handlers(const std::string& path) {
  start_or_die(path);
  const uint32_t label = label_of("interrupted");
  for (int i = 0; i < 1000; ++i) {
    api->end(api->begin(label));  // so that the next ones come at all places of a chunk
    interruption = record_in_handler;
    const uint64_t token = api->begin_with_payload(label, PROFKIT_PAYLOAD_INT64, 7);
    interruption = record_in_handler;
    api->end(token);
    interruption = record_in_handler;
    api->mark(label, 0, 0);
  }
  const auto dropped = static_cast<unsigned long long>(api->dropped());
  api->stop();
  std::printf("%llu\n", dropped);
}

}  // namespace

int main(int, char** arguments) {
  const std::string what = arguments[1], path = arguments[2];
  if (what == "many_threads") many_threads(path);
  if (what == "short_threads") short_threads(path);
  if (what == "restarts") restarts(path);
  if (what == "exhaustion") exhaustion(path);
  if (what == "names") names(path);
  if (what == "too_many_names") too_many_names(path);
  if (what == "forks") forks(path);
  if (what == "foreign_ends") foreign_ends(path);
  if (what == "clock_jumps") clock_jumps(path);
  if (what == "handlers") handlers(path);
  return 0;
}
