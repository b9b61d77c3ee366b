// A program that does what few programs do with threads, forks and limits, each a way in which a recorder
// could change how it ends. The argument says what; the test compares its exit code and reads its capture.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
const char* more = "";

uint32_t label_of(const std::string& name) { return api->label(name.data(), name.size(), nullptr, 0); }

void record(const std::string& name, int count = 1) {
  const uint32_t label = label_of(name);
  for (int i = 0; i < count; ++i) api->end(api->begin(label));
}

int wait_for(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
  if (wants_exec != nullptr) execl(more, more, "nothing", nullptr);
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

}  // namespace

int main(int count, char** arguments) {
  const auto find =
      reinterpret_cast<const profkit_tracer_api* (*)(uint32_t)>(dlsym(RTLD_DEFAULT, "profkit_tracer"));
  const std::string what = arguments[1];
  more = count > 2 ? arguments[2] : "";
  if (what == "mapped_memory") return print_mapped_memory();
  if (find == nullptr) return 100;
  api = find(PROFKIT_TRACER_API_VERSION);
  if (what == "first_thread_leaves") return first_thread_leaves();
  if (what == "fork_handlers_record") return fork_handlers_record();
  if (what == "close_inherited") return close_inherited();
  if (what == "cancelled_exit") return cancelled(false);
  if (what == "cancelled_exec") return cancelled(true);
  if (what == "limited_file_size") return limited_file_size();
  if (what == "become_daemon") return become_daemon();
  return 0;
}
