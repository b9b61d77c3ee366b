// Installs a handler for a few signals while the program leaves them at their default action.
#include "tracer/process/fatal_signals.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "tracer/core/export.h"
#include "tracer/core/recorder.h"
#include "tracer/core/session.h"

namespace profkit::tracer {
namespace {

using Sigaction = int (*)(int, const struct sigaction*, struct sigaction*);

constexpr int kWatched[] = {SIGTERM, SIGINT, SIGHUP};
constexpr int kRestorerFlag = 0x04000000;  // libc sets it with every handler
std::atomic<bool> is_watching{false};

std::atomic<Sigaction> next{nullptr};

Sigaction find_next() {
  const auto function = reinterpret_cast<Sigaction>(dlsym(RTLD_NEXT, "sigaction"));
  next.store(function, std::memory_order_relaxed);
  return function;
}

// When the library is loaded: later the first call may come from a signal handler or a child of vfork().
__attribute__((constructor(101))) void find_early() { find_next(); }

int next_sigaction(int signal_number, const struct sigaction* action, struct sigaction* old) {
  Sigaction function = next.load(std::memory_order_relaxed);
  if (function == nullptr) function = find_next();  // another library's constructor came first
  if (function != nullptr) return function(signal_number, action, old);
  errno = ENOSYS;
  return -1;
}

// The signal is blocked while its handler runs: the one sent here ends the process on return.
void end_by_signal(int signal_number) {
  const int saved_errno = errno;
  finish_process();
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  next_sigaction(signal_number, &action, nullptr);
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal_number);
  errno = saved_errno;
}

bool is_watched(int signal_number) {
  if (!is_watching.load(std::memory_order_relaxed)) return false;
  for (const int watched : kWatched) {
    if (watched == signal_number) return true;
  }
  return false;
}

bool is_default(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == end_by_signal;
}

// The action that takes the place of the default one. Mask and flags are the program's, for it to find again.
struct sigaction watching_action(const struct sigaction& wanted) {
  struct sigaction action = wanted;
  action.sa_handler = end_by_signal;
  return action;
}

int change_action(int signal_number, const struct sigaction* wanted, struct sigaction* old) {
  if (!is_watched(signal_number)) return next_sigaction(signal_number, wanted, old);
  struct sigaction replaced{};
  struct sigaction before{};
  if (wanted != nullptr && is_default(*wanted)) {
    replaced = watching_action(*wanted);
    wanted = &replaced;
  }
  const int result = next_sigaction(signal_number, wanted, &before);
  if (result != 0 || old == nullptr) return result;
  *old = before;
  if (is_ours(before)) {
    old->sa_handler = SIG_DFL;
    old->sa_flags &= ~kRestorerFlag;
  }
  return result;
}

}  // namespace

void watch_fatal_signals() {
  if (dlsym(RTLD_DEFAULT, "sigaction") != reinterpret_cast<void*>(&::sigaction)) return;
  is_watching.store(true);
  for (const int signal_number : kWatched) {
    struct sigaction action{};
    if (next_sigaction(signal_number, nullptr, &action) != 0 || !is_default(action)) continue;
    action = watching_action(action);
    next_sigaction(signal_number, &action, nullptr);
  }
}

}  // namespace profkit::tracer

PROFKIT_EXPORT int sigaction(int signal_number, const struct sigaction* action,
                             struct sigaction* old) noexcept {
  return profkit::tracer::change_action(signal_number, action, old);
}

// As libc has it: restarting calls, the signal itself blocked.
PROFKIT_EXPORT sighandler_t signal(int signal_number, sighandler_t handler) noexcept {
  struct sigaction action{};
  struct sigaction old{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, signal_number);
  if (handler == SIG_ERR) {
    errno = EINVAL;
    return SIG_ERR;
  }
  return profkit::tracer::change_action(signal_number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}
