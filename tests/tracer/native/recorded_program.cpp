// A program that is traced through the environment and by LD_PRELOAD only: it finds the recorder as any
// program would. The arguments say what it does; the test reads its capture.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tracer/core/api.h"

namespace {

const profkit_tracer_api* api = nullptr;

uint32_t label_of(const std::string& name) { return api->label(name.data(), name.size(), nullptr, 0); }

void record(const char* name, int count = 1) {
  const uint32_t label = label_of(name);
  for (int i = 0; i < count; ++i) api->end(api->begin_with_payload(label, PROFKIT_PAYLOAD_INT64, i));
}

int wait_for(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::atomic<int> handled{0};

// What a program sees of its signals: the defaults, and whatever it sets.
int signals_look_untouched() {
  struct sigaction old{};
  bool is_good = sigaction(SIGTERM, nullptr, &old) == 0 && old.sa_handler == SIG_DFL && old.sa_flags == 0;
  const auto count = [](int) { ++handled; };
  is_good = is_good && signal(SIGTERM, count) == SIG_DFL && raise(SIGTERM) == 0 && handled == 1;
  is_good = is_good && signal(SIGTERM, SIG_IGN) == static_cast<sighandler_t>(count) && raise(SIGTERM) == 0;
  is_good = is_good && signal(SIGTERM, SIG_DFL) == SIG_IGN && signal(SIGTERM, SIG_DFL) == SIG_DFL;
  record("last words", 100);
  if (is_good) raise(SIGTERM);
  return 1;
}

int exec_again(const char* program) {
  record("before exec", 100);
  api->begin(label_of("open at exec"));
  execl(program, program, "plain", nullptr);
  return 1;
}

int exec_fails() {
  record("before exec", 10);
  const int result = execl("/nowhere/at/all", "nothing", nullptr);
  record("after exec", 10);
  return result == -1 && errno == ENOENT ? 0 : 1;
}

int vfork_exec(const char* program) {
  record("parent", 10);
  const pid_t pid = vfork();
  if (pid == 0) {
    execl(program, program, "plain", nullptr);
    _exit(1);
  }
  record("parent", 10);
  return wait_for(pid);
}

int vfork_exits() {
  record("parent", 10);
  const pid_t pid = vfork();
  if (pid == 0) _exit(5);
  record("parent", 10);
  return wait_for(pid) == 5 ? 0 : 1;
}

int fork_twice() {
  api->begin(label_of("inherited"));
  const pid_t child = fork();
  if (child == 0) {
    record("child", 10);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      record("grandchild", 10);
      _exit(0);
    }
    _exit(wait_for(grandchild));
  }
  record("parent", 10);
  return wait_for(child);
}

int silent_fork() {
  record("parent", 10);
  const pid_t child = fork();
  if (child == 0) exit(0);
  return wait_for(child);
}

// What a daemon does: all descriptors closed, others opened with the same numbers.
int close_all(const char* own_file) {
  record("before", 10);
  usleep(60'000);
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  const int own = open(own_file, O_RDWR | O_CREAT | O_TRUNC, 0666);
  for (int fd = own + 1; fd < 1000; ++fd) dup2(own, fd);
  record("after", 10);
  usleep(60'000);
  return write(own, "mine", 4) == 4 ? 0 : 1;
}

int nested_too_deep() {
  std::vector<uint64_t> tokens;
  for (int i = 0; i < 1500; ++i) tokens.push_back(api->begin(label_of("level")));
  for (; !tokens.empty(); tokens.pop_back()) api->end(tokens.back());
  record("after", 10);
  return 0;
}

int threads_at_exit() {
  for (int i = 0; i < 4; ++i) {
    std::thread([] {
      for (;;) record("restless", 100);
    }).detach();
  }
  usleep(50'000);
  return 0;
}

int ranges_from_four_threads(int count) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([count] { record("range", count); });
  for (std::thread& thread : threads) thread.join();
  return 0;
}

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Records the time for ever; a shared page says when it did so last, also after it was killed.
int mark_progress(const char* progress_file) {
  const int fd = open(progress_file, O_RDWR);
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  auto* const progress = static_cast<std::atomic<int64_t>*>(page);
  const uint32_t label = label_of("step");
  progress[0].store(now_ns());
  for (;;) {
    const int64_t now = now_ns();
    api->mark(label, PROFKIT_PAYLOAD_INT64, static_cast<uint64_t>(now));
    progress[1].store(now);
    while (now_ns() < now + 2000) {
    }
  }
}

// As many records as the disk may refuse; then space is made, and some more.
int fill_disk(const char* ballast) {
  record("early", 10);
  for (int round = 0; round < 100; ++round) {
    record("too much", 20'000);
    api->flush();
  }
  std::printf("%llu\n", static_cast<unsigned long long>(api->dropped()));
  unlink(ballast);
  record("too much", 1000);  // the chunk in use began before the loss
  api->flush();
  record("late", 10);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const auto find =
      reinterpret_cast<const profkit_tracer_api* (*)(uint32_t)>(dlsym(RTLD_DEFAULT, "profkit_tracer"));
  if (find == nullptr) return 100;
  api = find(PROFKIT_TRACER_API_VERSION);
  const std::string what = arguments[1];
  const char* const more = count > 2 ? arguments[2] : "";
  if (what == "plain") record("plain", 100);
  if (what == "ranges") return ranges_from_four_threads(std::atoi(more));
  if (what == "exit_now") {
    record("last words", 100);
    api->begin(label_of("left open"));
    _exit(7);
  }
  if (what == "quick_exit") {
    record("last words", 100);
    quick_exit(8);
  }
  if (what == "signals_look_untouched") return signals_look_untouched();
  if (what == "raise") {
    record("last words", 100);
    raise(std::atoi(more));
  }
  if (what == "abort") {
    record("early", 100);
    usleep(200'000);
    std::abort();
  }
  if (what == "exec") return exec_again(arguments[0]);
  if (what == "exec_fails") return exec_fails();
  if (what == "vfork_exec") return vfork_exec(arguments[0]);
  if (what == "vfork_exits") return vfork_exits();
  if (what == "fork_twice") return fork_twice();
  if (what == "silent_fork") return silent_fork();
  if (what == "close_all") return close_all(more);
  if (what == "nested_too_deep") return nested_too_deep();
  if (what == "threads_at_exit") return threads_at_exit();
  if (what == "mark_progress") return mark_progress(more);
  if (what == "fill_disk") return fill_disk(more);
  if (what == "is_recording")
    std::printf("%s %s\n", *api->recording != 0 ? "yes" : "no", api->capture_path());
  if (what == "child") execl(arguments[0], arguments[0], "is_recording", nullptr);
  return 0;
}
