// Opens and closes the collector, gives CUPTI its buffers and takes them back.
#include "tracer/cupti/door.h"

#include <pthread.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tracer/core/chunks.h"
#include "tracer/core/clock.h"
#include "tracer/core/export.h"
#include "tracer/core/lock.h"
#include "tracer/core/recorder.h"
#include "tracer/core/session.h"
#include "tracer/cupti/correlation.h"
#include "tracer/cupti/flusher.h"
#include "tracer/cupti/library.h"
#include "tracer/cupti/queue.h"
#include "tracer/cupti/records.h"
#include "tracer/cupti/watch.h"

namespace profkit::tracer {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr uint32_t kBuffers = 64;  // beyond these CUPTI drops records, and counts them
// Flushing may be expensive for the driver; more often is not needed.
constexpr uint32_t kLeastFlushMs = 100;
constexpr int64_t kMaxWaitNs = 2'000'000'000;

// Without the first there is nothing to show; the others are left out where CUPTI refuses them.
struct WantedKind {
  cupti::ActivityKind kind;
  const char* what;
};
constexpr WantedKind kWanted[] = {
    {cupti::kConcurrentKernel, "kernels"},
    {cupti::kMemcpy, "copies"},
    {cupti::kMemcpyPeer, "copies between devices"},
    {cupti::kMemset, "memory sets"},
    {cupti::kMemory, "memory"},
    {cupti::kMemoryPool, "memory pools"},
    {cupti::kRuntime, "calls of the CUDA runtime"},
    {cupti::kDriver, "calls of the CUDA driver"},
    {cupti::kExternalCorrelation, "the ranges of calls"},
    {cupti::kOverhead, "CUPTI's own cost"},
    {cupti::kDevice, "attributes of devices"},
};

pthread_mutex_t door_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t status_mutex = PTHREAD_MUTEX_INITIALIZER;
CuptiLibrary library;
bool is_loaded = false;
cupti::Subscriber subscriber = nullptr;
std::atomic<bool> is_open{false};       // records are taken
std::atomic<bool> was_injected{false};  // the driver called us: it is there
std::atomic<bool> flush_hangs{false};
bool is_of_parent = false;  // CUPTI was open when this process was forked: it is the parent's
bool has_exit_handler = false;
CuptiStatus status{};
std::atomic<bool> has_been_open{false};  // in this capture
std::atomic<uint32_t> status_version{0};
uint8_t* buffers = nullptr;
std::atomic<uint32_t> next_free_buffers[kBuffers];
IndexStack free_buffers;
std::atomic<uint32_t> buffers_in_work{0};

void set_status(CuptiState state, const char* message) {
  const Lock lock(status_mutex);
  status.state = state;
  status.version = library.version;
  std::snprintf(status.library, sizeof(status.library), "%s", library.path);
  std::snprintf(status.message, sizeof(status.message), "%s", message);
  has_been_open.store(state == CuptiState::open);
  status_version.fetch_add(1);
}

void fail(const char* what, int32_t result) {
  char text[sizeof(status.message)];
  std::snprintf(text, sizeof(text), "the GPU is not recorded: %s gives %d (%s): %s", what, result,
                cupti_error_name(library, result), cupti_advice(result));
  set_status(CuptiState::failed, text);
}

// --- Buffers: called by CUPTI on any thread. They never throw and take no lock of the program. ---
void buffer_requested(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  const uint32_t index = free_buffers.pop();
  const bool has_one = index != IndexStack::kNone;
  *buffer = has_one ? buffers + index * kBufferBytes : nullptr;
  *bytes = has_one ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

void buffer_completed(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_bytes) {
  if (buffer < buffers || buffer >= buffers + kBuffers * kBufferBytes) return;
  const RecordingPause quiet;
  buffers_in_work.fetch_add(1);
  if (is_open.load()) {
    DeviceAppender appender;
    decode_activity_buffer(library, buffer, valid_bytes < kBufferBytes ? valid_bytes : kBufferBytes,
                           appender);
    size_t dropped = 0;
    if (library.call.get_dropped(context, stream, &dropped) == cupti::kSuccess) {
      device_counts.dropped_by_cupti.fetch_add(dropped, std::memory_order_relaxed);
    }
  }
  free_buffers.push(static_cast<uint32_t>(static_cast<size_t>(buffer - buffers) / kBufferBytes));
  cupti_buffers_completed.fetch_add(1);
  buffers_in_work.fetch_sub(1);
}

// CUPTI may have given a buffer to another thread, which is not done with it when the flush returns.
bool wait_for_buffers_in_work() {
  const int64_t start = monotonic_ns();
  while (buffers_in_work.load() != 0) {
    if (monotonic_ns() - start > kMaxWaitNs) return false;
    const timespec step{0, 100'000};
    nanosleep(&step, nullptr);
  }
  return true;
}

bool prepare_buffers() {
  if (!prepare_device_queue()) return false;
  if (buffers != nullptr) return true;
  buffers = static_cast<uint8_t*>(reserve_memory(kBuffers * kBufferBytes));
  if (buffers == nullptr) return false;
  free_buffers.use(next_free_buffers, kBuffers);
  return true;
}

// At exit the driver is still there when this runs: handlers run in the reverse order of their registration.
void finish_at_exit() {
  const RecordingPause quiet;
  if (session_is_ours()) flush_cupti(CuptiFlush::everything);
  set_device_correlation(nullptr);
  stop_cupti_flusher();
  is_open.store(false);
}

// Without a subscription CUPTI belongs to another tool, and so do the kinds that are enabled.
void disable_kinds() {
  if (subscriber == nullptr) return;
  for (const WantedKind& wanted : kWanted) library.call.disable(wanted.kind);
}

void disable_all() {
  if (subscriber == nullptr) return;
  disable_kinds();
  library.call.unsubscribe(subscriber);
  subscriber = nullptr;
}

// nullptr: what CUPTI refused is in `missing`. Otherwise the function that failed, with its `result`.
const char* enable_all(char* missing, size_t capacity, int32_t* result) {
  *result = library.call.subscribe(&subscriber, count_synchronisation, nullptr);
  if (*result != cupti::kSuccess) {
    subscriber = nullptr;
    return "cuptiSubscribe";
  }
  *result = library.call.register_callbacks(buffer_requested, buffer_completed);
  if (*result != cupti::kSuccess) return "cuptiActivityRegisterCallbacks";
  const bool has_thread_ids = library.call.set_thread_id_type(cupti::kThreadIdTypeSystem) == cupti::kSuccess;
  size_t used = 0;
  bool has_calls = true;
  for (const WantedKind& wanted : kWanted) {
    *result = library.call.enable(wanted.kind);
    if (*result == cupti::kSuccess) continue;
    if (wanted.kind == cupti::kConcurrentKernel) return "cuptiActivityEnable(CONCURRENT_KERNEL)";
    if (wanted.kind == cupti::kRuntime || wanted.kind == cupti::kDriver) has_calls = false;
    const int count = std::snprintf(missing + used, capacity - used, "%s%s (%d %s)", used == 0 ? "" : ", ",
                                    wanted.what, *result, cupti_error_name(library, *result));
    if (count > 0 && static_cast<size_t>(count) < capacity - used) used += static_cast<size_t>(count);
  }
  // A process synchronises far less often than it launches: the cost is not measurable.
  if (has_calls) library.call.enable_domain(1, subscriber, cupti::kSynchronizeDomain);
  if (!has_thread_ids) {
    std::snprintf(missing + used, capacity - used, "%sthe threads of calls", used == 0 ? "" : ", ");
  }
  return nullptr;
}

// The program used the GPU, but the driver did not load us: that must not look like an idle GPU.
void report_unrecorded_gpu() {
  {
    const Lock lock(status_mutex);
    if (status.state != CuptiState::closed) return;
  }
  if (!options().cuda || was_injected.load() || is_of_parent || !driver_is_in_use()) return;
  const char* const tool = std::getenv("CUDA_INJECTION64_PATH");
  const bool has_tool = tool != nullptr && *tool != '\0';
  char text[sizeof(status.message)];
  std::snprintf(text, sizeof(text),
                "the GPU is not recorded: the program used it, but CUDA's driver did not call profkit: "
                "CUDA_INJECTION64_PATH %s%.1000s when the driver started; run the program by profkit trace "
                "and without another profiler",
                has_tool ? "was " : "was not set", has_tool ? tool : "");
  set_status(CuptiState::failed, text);
}

void open_locked() {
  if (is_open.load() || !options().cuda) return;
  if (is_of_parent && !was_injected.load()) return;
  if (cupti_flusher_runs()) {
    return set_status(
        CuptiState::failed,
        "the GPU is not recorded: CUPTI has been hanging since the end of the previous capture; start the "
        "program again");
  }
  if (!is_loaded) is_loaded = load_cupti(library, std::getenv("PROFKIT_CUPTI_WHEELS"));
  if (!is_loaded) {
    char text[sizeof(status.message)];
    std::snprintf(text, sizeof(text), "the GPU is not recorded: %s", library.reason);
    return set_status(CuptiState::failed, text);
  }
  if (!prepare_buffers()) {
    return set_status(CuptiState::failed, "the GPU is not recorded: no memory for CUPTI's buffers (96 MiB)");
  }
  reset_cupti_watch();
  is_open.store(true);  // CUPTI may bring its first records while kinds are still being enabled
  char missing[1000] = {};
  int32_t result = 0;
  if (const char* const failed = enable_all(missing, sizeof(missing), &result)) {
    is_open.store(false);
    disable_all();
    return fail(failed, result);
  }
  const uint32_t period_ms = options().flush_ms < kLeastFlushMs ? kLeastFlushMs : options().flush_ms;
  if (!start_cupti_flusher(library, period_ms)) {
    is_open.store(false);
    disable_all();
    return set_status(CuptiState::failed,
                      "the GPU is not recorded: no thread could be started; raise the limit");
  }
  if (!has_exit_handler) has_exit_handler = std::atexit(finish_at_exit) == 0;
  set_device_correlation(&library.call);
  char text[sizeof(status.message)] = {};
  if (missing[0] != '\0') std::snprintf(text, sizeof(text), "CUPTI does not record: %s", missing);
  set_status(CuptiState::open, text);
}

}  // namespace

void get_cupti_status(CuptiStatus& result) {
  const Lock lock(status_mutex);
  result = status;
  if (flush_hangs.load()) {
    std::snprintf(
        result.message, sizeof(result.message),
        "CUPTI did not give its last records within two seconds: the last moments of the GPU may be "
        "missing");
  } else if (const uint64_t missing = unrecorded_synchronisations()) {
    std::snprintf(
        result.message, sizeof(result.message),
        "the program waited %llu times for its GPU, and of these calls CUPTI gave no record: another "
        "tool has taken CUPTI's buffers (torch.profiler, or another profiler that the program "
        "starts), and what the GPU did since then is not in the capture; trace without it%s%.900s",
        static_cast<unsigned long long>(missing), status.message[0] == '\0' ? "" : ". ", status.message);
  }
}

uint32_t cupti_status_version() { return status_version.load(); }
bool cupti_door_is_open() { return has_been_open.load(); }

void reset_cupti_status() {
  flush_hangs.store(false);
  reset_cupti_watch();
  set_status(CuptiState::closed, "");
}

void open_cupti_door_if_driver_is_here() {
  if (!was_injected.load() && !driver_is_loaded()) return;
  const Lock lock(door_mutex);
  open_locked();
}

bool flush_cupti(CuptiFlush what) {
  if (!is_open.load()) return true;
  const uint64_t synchronisations = cupti_synchronisations.load();
  bool is_news = false;
  const bool is_done = flush_through_flusher(what) && wait_for_buffers_in_work();
  if (is_done) {
    is_news = what == CuptiFlush::everything && find_unrecorded_synchronisations(synchronisations);
  } else if (cupti_flusher_runs()) {  // otherwise another thread has just ended the capture
    is_news = !flush_hangs.exchange(true);
  }
  if (is_news) status_version.fetch_add(1);
  return is_done;
}

void close_cupti_door() {
  const Lock lock(door_mutex);
  if (!is_open.load()) return report_unrecorded_gpu();
  set_device_correlation(nullptr);
  bool is_well = flush_cupti(CuptiFlush::everything);
  if (is_well) {  // otherwise any call of CUPTI may wait for what hangs
    // What other threads have launched since then would come out in the next capture.
    disable_kinds();
    is_well = flush_cupti(CuptiFlush::everything);
  }
  stop_cupti_flusher();
  if (is_well) disable_all();
  is_open.store(false);
}

void forget_cupti_in_child() {
  pthread_mutex_init(&door_mutex, nullptr);
  pthread_mutex_init(&status_mutex, nullptr);
  forget_device_correlation();
  forget_cupti_flusher();
  is_open.store(false);
  is_of_parent = is_of_parent || subscriber != nullptr;
  subscriber = nullptr;
  was_injected.store(false);
  buffers_in_work.store(0);
  if (buffers != nullptr) free_buffers.reset();
  reset_device_queue();
  reset_cupti_status();
}

}  // namespace profkit::tracer

// The driver calls it when the program first uses CUDA, if CUDA_INJECTION64_PATH names this library.
PROFKIT_EXPORT int InitializeInjection() {
  using namespace profkit::tracer;
  was_injected.store(true);
  this_thread();  // in a fork child its own capture begins here
  const RecordingPause quiet;
  if (session_is_ours()) {
    const Lock lock(door_mutex);
    open_locked();
  }
  return 1;
}
