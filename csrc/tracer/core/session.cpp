// Start and stop of a capture, in this process and in its fork children.
#include "tracer/core/session.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tracer/core/chunks.h"
#include "tracer/core/lock.h"
#include "tracer/core/names.h"
#include "tracer/core/threads.h"
#include "tracer/cupti/door.h"
#include "tracer/cupti/queue.h"
#include "tracer/doors/open.h"
#include "tracer/file/writer.h"

namespace profkit::tracer {
namespace {

struct Session {
  std::atomic<bool> is_running{false};
  std::atomic<bool> child_is_pending{false};  // a fork child that has not recorded yet
  std::atomic<pid_t> pid{0};
  uint32_t epoch = 0;
  Options options;
  ThreadRecorder* fork_recorder = nullptr;  // of the thread that forked
  bool fork_recorder_is_current = false;
  uint64_t fork_ticks = 0;
  bool has_fork_handlers = false, has_clock = false;
};

Session session;
pthread_mutex_t session_mutex = PTHREAD_MUTEX_INITIALIZER;

void reset_losses() {
  losses.too_slow = 0;
  losses.too_deep = 0;
  losses.disk_full = 0;
  losses.nested = 0;
  losses.untraced_execs = 0;
  losses.stalled_ns = 0;
  clear_device_queue();
}

uint32_t next_epoch() { return ++session.epoch == 0 ? ++session.epoch : session.epoch; }

const char* start_locked(const char* path, const Options& wanted) {
  if (session.is_running.load()) return "a capture is running already; stop it first";
  if (path == nullptr || path[0] == '\0') return "the capture file has no name";
  if (!session.has_clock) choose_clock();
  session.has_clock = true;
  session.options = wanted;
  session.options.buffer_mib = reserve_chunks(wanted.buffer_mib);
  if (session.options.buffer_mib == 0 || !prepare_names() || !ThreadTable::prepare()) {
    return "no memory for the tracer's buffers; choose a smaller buffer_mib";
  }
  if (!session.has_fork_handlers) pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  session.has_fork_handlers = true;
  const uint32_t epoch = next_epoch();
  reset_losses();
  reset_cupti_status();
  ThreadTable::start_session(wanted.usage);
  if (const char* why = open_writer(path, epoch)) return why;
  session.pid.store(getpid());
  session.is_running.store(true);
  recording.store(epoch, std::memory_order_release);
  if (!thread_state.is_ending) ThreadTable::attach(epoch);  // the thread that starts is number 0
  const char* why = start_writer_thread();
  if (why != nullptr) {
    recording.store(0);
    close_writer();
    session.is_running.store(false);
  }
  return why;
}

bool parse_number(const char* text, uint64_t lowest, uint64_t highest, uint64_t* result) {
  if (*text < '0' || *text > '9') return false;
  errno = 0;
  char* end = nullptr;
  *result = std::strtoull(text, &end, 10);
  return errno == 0 && *end == '\0' && *result >= lowest && *result <= highest;
}

bool parse_option(char* part, Options* result) {
  char* const equals = std::strchr(part, '=');
  if (equals == nullptr) return false;
  *equals = '\0';
  const char* const value = equals + 1;
  const auto is = [part](const char* name) { return std::strcmp(part, name) == 0; };
  uint64_t number = 0;
  bool is_good = false;
  if (is("threshold")) {
    is_good = parse_number(value, 0, UINT64_MAX, &number);
    result->allocation_threshold = number;
  } else if (is("flush_ms")) {
    is_good = parse_number(value, 1, 10'000, &number);
    result->flush_ms = static_cast<uint32_t>(number);
  } else if (is("buffer_mib")) {
    is_good = parse_number(value, 1, 4096, &number);
    result->buffer_mib = static_cast<uint32_t>(number);
  } else {
    bool* const flag = is("usage")         ? &result->usage
                       : is("allocations") ? &result->allocations
                       : is("children")    ? &result->children
                       : is("cuda")        ? &result->cuda
                                           : nullptr;
    is_good = flag != nullptr && parse_number(value, 0, 1, &number);
    if (is_good) *flag = number == 1;
  }
  *equals = '=';
  return is_good;
}

}  // namespace

const Options& options() { return session.options; }

bool parse_options(const char* text, Options* result, char* why) {
  if (text == nullptr) return true;
  while (*text != '\0') {
    const size_t length = std::strcspn(text, ",");
    char part[64] = {};
    std::memcpy(part, text, length < sizeof(part) ? length : sizeof(part) - 1);
    if (length != 0 && (length >= sizeof(part) || !parse_option(part, result))) {
      std::snprintf(why, 128, "unknown option or value '%s' in PROFKIT_TRACE_OPTIONS", part);
      return false;
    }
    text += length;
    if (*text == ',') ++text;
  }
  return true;
}

const char* start(const char* path, const Options& wanted) {
  RecordingPause quiet;
  const char* why = nullptr;
  {
    const LockUnlessForking lock(session_mutex);
    why = start_locked(path, wanted);
  }
  if (why == nullptr) open_cupti_door_if_driver_is_here();
  return why;
}

const char* stop() {
  RecordingPause quiet;
  if (session_is_ours()) close_cupti_door();
  const LockUnlessForking lock(session_mutex);
  if (!session.is_running.load()) return "no capture is running";
  recording.store(0);
  if (!session.child_is_pending.exchange(false) && session_is_ours()) {
    write_end();
    close_writer();
  }
  session.is_running.store(false);
  return nullptr;
}

void flush() {
  RecordingPause quiet;
  if (!session_is_ours()) return;
  flush_cupti(CuptiFlush::finished_work);
  write_now();
}

const char* capture_path() {
  RecordingPause quiet;
  return writer_path();
}

bool session_is_ours() {
  return session.is_running.load() && !session.child_is_pending.load() && session.pid.load() == getpid();
}

void finish_process() {
  if (thread_state.quiet != 0)
    return;  // inside the tracer's own work: a signal handler that ends the process
  RecordingPause quiet;
  if (!session_is_ours()) return;
  flush_cupti(CuptiFlush::everything);
  write_end();
}

void resume_process() {
  RecordingPause quiet;
  if (session_is_ours()) retract_end();
}

uint32_t open_door_bits() {
  return (nvtx_door_is_open() ? 1u : 0u) | (itt_door_is_open() ? 2u : 0u) |
         (allocations_are_interposed() && session.options.allocations ? 4u : 0u) |
         (cupti_door_is_open() ? 8u : 0u);
}

ThreadRecorder* attach_thread() {
  if (thread_state.quiet != 0 || thread_state.is_ending) return nullptr;
  RecordingPause quiet;
  const int saved_errno = errno;
  ThreadRecorder* recorder = nullptr;
  const bool is_ready = !session.child_is_pending.load() || start_in_child();
  const uint32_t epoch = recording.load(std::memory_order_acquire);
  if (is_ready && epoch != 0 && session_is_ours()) recorder = ThreadTable::attach(epoch);
  errno = saved_errno;
  return recorder;
}

// --- fork: the child continues in the same file as a separate process, from its first event on ---
// Other libraries' handlers run on the thread while it holds the locks: what they record is left out.
void before_fork() {
  ++thread_state.quiet;
  pthread_mutex_lock(&session_mutex);
  lock_names();
  thread_state.is_forking = true;
}

void after_fork_in_parent() {
  thread_state.is_forking = false;
  unlock_names();
  pthread_mutex_unlock(&session_mutex);
  --thread_state.quiet;
}

void after_fork_in_child() {
  after_fork_in_parent();
  reset_writer_lock();
  forget_cupti_in_child();
  if (!session.is_running.load()) return;
  if (!session.options.children) {
    recording.store(0);
    session.is_running.store(false);
    return;
  }
  session.pid.store(getpid());
  session.fork_ticks = read_ticks();
  session.fork_recorder = thread_state.recorder;
  // The child of a child that never recorded inherits from the last process that did.
  if (!session.child_is_pending.load())
    session.fork_recorder_is_current = thread_state.epoch == session.epoch;
  session.child_is_pending.store(true);
  recording.store(next_epoch());
}

bool start_in_child() {
  const LockUnlessForking lock(session_mutex);
  if (!session.child_is_pending.load()) return true;
  if (session.pid.load() != getpid()) return false;
  reset_chunks();
  reset_losses();
  ThreadTable::keep_only(session.fork_recorder, session.fork_recorder_is_current, session.fork_ticks);
  ThreadTable::start_session(session.options.usage);
  const char* why = open_writer_in_child(session.epoch);
  session.child_is_pending.store(false);
  if (why == nullptr) why = start_writer_thread();
  if (why == nullptr) return true;
  recording.store(0);
  session.is_running.store(false);
  return false;
}

}  // namespace profkit::tracer
