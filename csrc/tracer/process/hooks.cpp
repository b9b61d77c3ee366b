// Loading, exit and exec: nothing recorded so far may be lost. The functions here replace libc's only when
// the library is preloaded.
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tracer/core/export.h"
#include "tracer/core/recorder.h"
#include "tracer/core/session.h"
#include "tracer/core/threads.h"
#include "tracer/process/fatal_signals.h"

// Older C libraries have it, but do not declare it.
PROFKIT_EXPORT int execveat(int, const char*, char* const[], char* const[], int) noexcept;

namespace profkit::tracer {
namespace {

#define PROFKIT_NEXT(name) \
  decltype(&::name) name = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name))

// Found when the library is loaded: looking up is not safe in a child of vfork().
struct Next {
  PROFKIT_NEXT(execve);
  PROFKIT_NEXT(execvpe);
  PROFKIT_NEXT(execv);
  PROFKIT_NEXT(execvp);
  PROFKIT_NEXT(fexecve);
  PROFKIT_NEXT(execveat);
  PROFKIT_NEXT(_exit);
  PROFKIT_NEXT(quick_exit);
  PROFKIT_NEXT(daemon);
} next;

// The path with which this library is loaded; found when it is loaded, like the functions.
const char* own_path = nullptr;

const char* library_path() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&library_path), &info) != 0 ? info.dli_fname : nullptr;
}

const char* value_of(char* const environment[], const char* name) {
  const size_t length = std::strlen(name);
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
      return *environment + length + 1;
    }
  }
  return nullptr;
}

// Whether a program with this environment loads the library and records into a file.
bool loads_tracer(char* const environment[]) {
  const char* const list = value_of(environment, "LD_PRELOAD");
  if (list == nullptr || value_of(environment, "PROFKIT_TRACE_FILE") == nullptr) return false;
  const size_t wanted = std::strlen(own_path);
  for (const char* at = list; *at != '\0';) {
    const size_t length = std::strcspn(at, ": ");
    if (length == wanted && std::memcmp(at, own_path, length) == 0) return true;
    at += length + (at[length] != '\0' ? 1 : 0);
  }
  return false;
}

// Writes everything to the file, then runs the other program; if that fails, the process continues to record.
template <class Function, class... Arguments>
int leave_process(Function function, Arguments... arguments) {
  if (function == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  finish_process();
  const int result = function(arguments...);
  const int saved_errno = errno;
  resume_process();
  errno = saved_errno;
  return result;
}

// The same by exec. A program that will not record is counted; after vfork() that is in the parent's memory.
template <class Function, class... Arguments>
int replace_process(char* const environment[], Function function, Arguments... arguments) {
  const bool is_untraced = recording.load() != 0 && options().children && own_path != nullptr &&
                           thread_state.quiet == 0 && !loads_tracer(environment);
  if (is_untraced) losses.untraced_execs.fetch_add(1, std::memory_order_relaxed);
  const int result = leave_process(function, arguments...);
  if (is_untraced) losses.untraced_execs.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

// Removes the library from a list of libraries, in place.
void remove_library(char* list, const char* path) {
  char* kept = list;
  for (const char* at = list; *at != '\0';) {
    const size_t length = std::strcspn(at, ": ");
    const char* const after = at + length + (at[length] != '\0' ? 1 : 0);
    if (length != std::strlen(path) || std::memcmp(at, path, length) != 0) {
      std::memmove(kept, at, static_cast<size_t>(after - at));
      kept += after - at;
    }
    at = after;
  }
  if (kept != list && (kept[-1] == ':' || kept[-1] == ' ')) --kept;
  *kept = '\0';
}

// NVTX and ITT look for their library at their first call in this process, so their variables must stay;
// without PROFKIT_TRACE_FILE the library records nothing in a child that loads it.
void keep_children_out() {
  unsetenv("PROFKIT_TRACE_FILE");
  unsetenv("PROFKIT_TRACE_OPTIONS");
  char* const list = std::getenv("LD_PRELOAD");
  if (list == nullptr || own_path == nullptr) return;
  remove_library(list, own_path);
  if (*list == '\0') unsetenv("LD_PRELOAD");
}

void complain(const char* why) { std::fprintf(stderr, "profkit: this process is not recorded: %s\n", why); }

__attribute__((constructor)) void load() {
  RecordingPause quiet;
  const int saved_errno = errno;
  own_path = library_path();
  const char* const path = std::getenv("PROFKIT_TRACE_FILE");
  if (path != nullptr && *path != '\0') {
    Options wanted;
    char why[128];
    if (!parse_options(std::getenv("PROFKIT_TRACE_OPTIONS"), &wanted, why)) {
      complain(why);
    } else if (const char* failure = start(path, wanted)) {
      complain(failure);
    } else {
      watch_fatal_signals();
    }
    if (!wanted.children) keep_children_out();
  }
  errno = saved_errno;
}

// Threads may still run: from here on recording is off for them.
__attribute__((destructor)) void unload() {
  if (recording.load() != 0 && session_is_ours()) stop();
}

constexpr int kMaxListedArguments = 4096;

// Collects the arguments of execl() and its variants; -1 when there are too many.
int collect(va_list list, const char* first, const char** arguments) {
  int count = 0;
  for (const char* argument = first; argument != nullptr; argument = va_arg(list, const char*)) {
    if (count + 1 >= kMaxListedArguments) {
      errno = E2BIG;
      return -1;
    }
    arguments[count++] = argument;
  }
  arguments[count] = nullptr;
  return count;
}

}  // namespace
}  // namespace profkit::tracer

using profkit::tracer::collect;
using profkit::tracer::kMaxListedArguments;
using profkit::tracer::leave_process;
using profkit::tracer::next;
using profkit::tracer::replace_process;

PROFKIT_EXPORT int execve(const char* path, char* const arguments[], char* const environment[]) noexcept {
  return replace_process(environment, next.execve, path, arguments, environment);
}

PROFKIT_EXPORT int execv(const char* path, char* const arguments[]) noexcept {
  return replace_process(environ, next.execv, path, arguments);
}

PROFKIT_EXPORT int execvp(const char* file, char* const arguments[]) noexcept {
  return replace_process(environ, next.execvp, file, arguments);
}

PROFKIT_EXPORT int execvpe(const char* file, char* const arguments[], char* const environment[]) noexcept {
  return replace_process(environment, next.execvpe, file, arguments, environment);
}

PROFKIT_EXPORT int fexecve(int fd, char* const arguments[], char* const environment[]) noexcept {
  return replace_process(environment, next.fexecve, fd, arguments, environment);
}

PROFKIT_EXPORT int execveat(int folder, const char* path, char* const arguments[], char* const environment[],
                            int flags) noexcept {
  return replace_process(environment, next.execveat, folder, path, arguments, environment, flags);
}

#define PROFKIT_EXEC_LISTED(name, listless)                                      \
  PROFKIT_EXPORT int name(const char* file, const char* first, ...) noexcept {   \
    const char* arguments[kMaxListedArguments];                                  \
    va_list list;                                                                \
    va_start(list, first);                                                       \
    const int count = collect(list, first, arguments);                           \
    va_end(list);                                                                \
    return count < 0 ? -1 : listless(file, const_cast<char* const*>(arguments)); \
  }
PROFKIT_EXEC_LISTED(execl, execv)
PROFKIT_EXEC_LISTED(execlp, execvp)
#undef PROFKIT_EXEC_LISTED

PROFKIT_EXPORT int execle(const char* path, const char* first, ...) noexcept {
  const char* arguments[kMaxListedArguments];
  va_list list;
  va_start(list, first);
  const int count = collect(list, first, arguments);
  char* const* const environment = count < 0 ? nullptr : va_arg(list, char* const*);
  va_end(list);
  return count < 0 ? -1 : execve(path, const_cast<char* const*>(arguments), environment);
}

PROFKIT_EXPORT void _exit(int status) {
  profkit::tracer::finish_process();
  if (next._exit != nullptr) next._exit(status);
  for (;;) syscall(SYS_exit_group, status);
}

PROFKIT_EXPORT void _Exit(int status) noexcept { _exit(status); }

// The process continues in a fork child; libc ends this one without calling the functions above.
PROFKIT_EXPORT int daemon(int keeps_folder, int keeps_files) noexcept {
  return leave_process(next.daemon, keeps_folder, keeps_files);
}

PROFKIT_EXPORT void quick_exit(int status) noexcept {
  profkit::tracer::finish_process();
  if (next.quick_exit != nullptr) next.quick_exit(status);
  _exit(status);
}
