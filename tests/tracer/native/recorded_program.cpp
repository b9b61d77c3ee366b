// A program that is traced through the environment and by LD_PRELOAD only: it finds the recorder as any
// program would. The arguments say what it does, some of it what few programs do with threads, forks and
// limits; the test compares its exit code and reads its capture.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tracer/core/api.h"

namespace {

const profkit_tracer_api* api = nullptr;
const char* itself = "";
const char* more = "";

uint32_t label_of(const std::string& name) { return api->label(name.data(), name.size(), nullptr, 0); }

void record(const std::string& name, int count = 1) {
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

int exec_again() {
  record("before exec", 100);
  api->begin(label_of("open at exec"));
  execl(itself, itself, "plain", nullptr);
  return 1;
}

int exec_fails() {
  record("before exec", 10);
  const int result = execl("/nowhere/at/all", "nothing", nullptr);
  record("after exec", 10);
  return result == -1 && errno == ENOENT ? 0 : 1;
}

int vfork_exec() {
  record("parent", 10);
  const pid_t pid = vfork();
  if (pid == 0) {
    execl(itself, itself, "plain", nullptr);
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
int close_all() {
  record("before", 10);
  usleep(60'000);
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  const int own = open(more, O_RDWR | O_CREAT | O_TRUNC, 0666);
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

int ranges_from_four_threads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { record("range", std::atoi(more)); });
  for (std::thread& thread : threads) thread.join();
  return 0;
}

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Records the time for ever; a shared page says when it did so last, also after it was killed.
int mark_progress() {
  const int fd = open(more, O_RDWR);
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
int fill_disk() {
  record("early", 10);
  for (int round = 0; round < 100; ++round) {
    record("too much", 20'000);
    api->flush();
  }
  std::printf("%llu\n", static_cast<unsigned long long>(api->dropped()));
  unlink(more);
  record("too much", 1000);  // the chunk in use began before the loss
  api->flush();
  record("late", 10);
  return 0;
}

// The process goes on until its other threads have ended, too.
int first_thread_leaves() {
  std::atexit([] { std::puts("handlers ran"); });
  std::thread([] {
    usleep(50'000);
    record("worker", 10);
  }).detach();
  pthread_exit(nullptr);
}

// A library that was there before the tracer records and brings new names in all its fork handlers.
int fork_handlers_record() {
  const auto handler = [] {
    static int calls = 0;
    record("handler " + std::to_string(++calls));
  };
  pthread_atfork(handler, handler, handler);
  if (api->start(more, nullptr) != nullptr) return 2;
  record("parent", 10);
  const pid_t child = fork();
  if (child == 0) {
    record("child", 10);
    api->stop();
    _exit(0);
  }
  const int result = wait_for(child);
  record("parent", 10);
  api->stop();
  return result;
}

// Ranges that were opened before forks are closed after them, in each process: there is room for as many.
int close_inherited() {
  const uint32_t label = label_of("level");
  std::vector<uint64_t> tokens;
  for (int i = 0; i < 1000; ++i) tokens.push_back(api->begin(label));
  const pid_t child = fork();
  const pid_t grandchild = child == 0 ? fork() : 0;
  const uint64_t own = api->begin(label_of("own"));
  for (; tokens.size() > 500; tokens.pop_back()) api->end(tokens.back());
  api->end(own);
  for (; !tokens.empty(); tokens.pop_back()) api->end(tokens.back());
  for (int i = 0; i < 1000; ++i) tokens.push_back(api->begin(label_of("later")));
  for (; !tokens.empty(); tokens.pop_back()) api->end(tokens.back());
  if (child == 0) _exit(grandchild == 0 ? 0 : wait_for(grandchild));
  return wait_for(child);
}

// A thread that is to be cancelled ends the process or replaces its program: neither lets it be cancelled.
void* end_while_cancelled(void* wants_exec) {
  record("cancelled", 10);
  pthread_cancel(pthread_self());
  if (wants_exec != nullptr) execl(itself, itself, "nothing", nullptr);
  _exit(7);
}

int cancelled(bool wants_exec) {
  pthread_t thread;
  pthread_create(&thread, nullptr, end_while_cancelled, wants_exec ? &thread : nullptr);
  pthread_join(thread, nullptr);
  return 1;
}

// The capture may not grow: a child notices when it writes its first blocks, the parent at its end.
int limited_file_size() {
  record("early", 10);
  api->flush();
  const rlimit limit{100, 100};
  setrlimit(RLIMIT_FSIZE, &limit);
  const pid_t child = fork();
  record("late", 10);
  if (child == 0) _exit(0);
  return wait_for(child);
}

int become_daemon() {
  record("before", 10);
  if (daemon(1, 1) != 0) return 1;
  record("daemon", 10);
  return 0;
}

// In MiB, with what is reserved: with mlockall() all of it would be resident.
int print_mapped_memory() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  long pages = 0;
  if (file == nullptr || std::fscanf(file, "%ld", &pages) != 1) return 1;
  std::printf("%ld\n", pages * sysconf(_SC_PAGESIZE) >> 20);
  return 0;
}

// Records, and ends in this way.
int last_words(const std::function<void()>& end) {
  record("last words", 100);
  end();
  return 0;
}

int exit_now() {
  return last_words([] {
    api->begin(label_of("left open"));
    _exit(7);
  });
}

int abort_later() {
  record("early", 100);
  usleep(200'000);
  std::abort();
}

int tell_whether_it_records() {
  std::printf("%s %s\n", *api->recording != 0 ? "yes" : "no", api->capture_path());
  return 0;
}

int plain() {
  record("plain", 100);
  return 0;
}

const std::map<std::string, int (*)()> kDeeds = {
    {"plain", plain},
    {"ranges", ranges_from_four_threads},
    {"exit_now", exit_now},
    {"quick_exit", [] { return last_words([] { quick_exit(8); }); }},
    {"raise", [] { return last_words([] { raise(std::atoi(more)); }); }},
    {"signals_look_untouched", signals_look_untouched},
    {"abort", abort_later},
    {"exec", exec_again},
    {"exec_fails", exec_fails},
    {"vfork_exec", vfork_exec},
    {"vfork_exits", vfork_exits},
    {"fork_twice", fork_twice},
    {"silent_fork", silent_fork},
    {"close_all", close_all},
    {"nested_too_deep", nested_too_deep},
    {"threads_at_exit", threads_at_exit},
    {"mark_progress", mark_progress},
    {"fill_disk", fill_disk},
    {"is_recording", tell_whether_it_records},
    {"child", [] { return execl(itself, itself, "is_recording", nullptr); }},
    {"first_thread_leaves", first_thread_leaves},
    {"fork_handlers_record", fork_handlers_record},
    {"close_inherited", close_inherited},
    {"cancelled_exit", [] { return cancelled(false); }},
    {"cancelled_exec", [] { return cancelled(true); }},
    {"limited_file_size", limited_file_size},
    {"become_daemon", become_daemon},
    {"nothing", [] { return 0; }},
};

}  // namespace

int main(int count, char** arguments) {
  const auto find =
      reinterpret_cast<const profkit_tracer_api* (*)(uint32_t)>(dlsym(RTLD_DEFAULT, "profkit_tracer"));
  const std::string what = arguments[1];
  itself = arguments[0];
  more = count > 2 ? arguments[2] : "";
  if (what == "mapped_memory") return print_mapped_memory();
  if (find == nullptr) return 100;
  api = find(PROFKIT_TRACER_API_VERSION);
  return kDeeds.at(what)();
}
