// A libcupti for tests: the functions that the collector uses, and double_*() by which a program says what
// "the GPU" did. Records have the layouts of the version that CUPTI_DOUBLE_VERSION asks for.
// CUPTI_DOUBLE_FAIL makes functions fail ("cuptiSubscribe=39,cuptiActivityEnable:49=35"), CUPTI_DOUBLE_WALKER
// lets a real library walk the buffers, CUPTI_DOUBLE_LATE launches a kernel while the tool is disabling
// kinds.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cupti_layouts.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

namespace at = cupti_layouts;

constexpr int kSuccess = 0, kInvalidParameter = 1, kMaxLimitReached = 12, kQueueEmpty = 26,
              kMultipleSubscribers = 39;
constexpr uint32_t kMemcpy = 1, kMemset = 2, kDriver = 4, kRuntime = 5, kDevice = 8, kKernel = 10,
                   kOverhead = 17, kPeer = 22, kExternal = 39, kMemory = 49, kPool = 50;
constexpr uint64_t kClockDistanceNs = 3'600'000'000'000;  // CUPTI's clock is another one than ours
constexpr uint64_t kDriftPart = 50'000;                   // and runs 20 ppm faster

using Requested = void (*)(uint8_t**, size_t*, size_t*);
using Completed = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);

std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;
std::set<uint32_t> enabled;
std::set<std::string> kept_names;
bool is_subscribed = false;
using Callback = void (*)(void*, uint32_t, uint32_t, const void*);
std::atomic<Callback> callback{nullptr};
std::atomic<bool> tells_synchronisations{false};
Requested requested = nullptr;
Completed completed = nullptr;
uint8_t* buffer = nullptr;
size_t buffer_bytes = 0, used = 0;
size_t dropped = 0;
std::atomic<uint64_t> pool_bytes{0}, pool_used_bytes{0};
std::atomic<uint32_t> completing{0};  // buffers on their way to the tool
std::atomic<uint32_t> next_correlation{1}, disable_calls{0}, flush_calls{0}, push_calls{0}, pop_calls{0},
    forced_flushes{0};
thread_local std::map<uint32_t, std::vector<uint64_t>> external_ids;  // by kind

uint32_t version() {
  static const uint32_t asked = [] {
    const char* const text = std::getenv("CUPTI_DOUBLE_VERSION");
    return text == nullptr ? 130001u : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
  }();
  return asked;
}

// Variables as they were when the double was loaded: the tracer's thread calls these functions while the
// program may change its environment, which getenv does not survive. Never destroyed: threads run until the
// end.
std::string& variable(const char* name) {
  const char* const value = std::getenv(name);
  return *new std::string(value == nullptr ? "" : value);
}
const std::string& failures = variable("CUPTI_DOUBLE_FAIL").insert(0, 1, ',');
const std::string& walker = variable("CUPTI_DOUBLE_WALKER");
const bool is_late = std::getenv("CUPTI_DOUBLE_LATE") != nullptr;
const bool hangs = std::getenv("CUPTI_DOUBLE_HANGS") != nullptr;

// What CUPTI_DOUBLE_FAIL says about this function, 0 when nothing.
int failure(const std::string& function) {
  const size_t found = failures.find("," + function + "=");
  return found == std::string::npos ? 0 : std::atoi(failures.c_str() + found + function.size() + 2);
}

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t device_ns() {
  static const uint64_t first = monotonic_ns();
  const uint64_t passed = monotonic_ns() - first;
  return first + kClockDistanceNs + passed + passed / kDriftPart;
}

size_t size_of(uint32_t kind) {
  const at::Sizes& sizes = at::sizes_of(version());
  static const std::map<uint32_t, size_t> known = {
      {kKernel, sizes.kernel}, {kMemcpy, sizes.memcpy}, {kPeer, sizes.peer},         {kMemset, sizes.memset},
      {kMemory, sizes.memory}, {kPool, sizes.pool},     {kOverhead, sizes.overhead}, {kDevice, sizes.device},
      {kDriver, at::kApi},     {kRuntime, at::kApi},    {kExternal, at::kExternal},
  };
  const auto found = known.find(kind);
  return found == known.end() ? 56 : found->second;  // as SYNCHRONIZATION, for what nobody decodes
}

class Record {
 public:
  explicit Record(uint32_t kind)
      : bytes_(size_of(kind), 0xA5) {  // what a later version has there is anything
    put(0, kind);
  }
  template <class Value>
  Record& put(size_t offset, const Value& value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(value));
    return *this;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

void complete() {
  uint8_t* full;
  size_t bytes, valid;
  {
    const Lock lock(mutex);
    full = buffer, bytes = buffer_bytes, valid = used;
    buffer = nullptr;
    used = 0;
    ++completing;
  }
  if (full != nullptr && completed != nullptr) completed(nullptr, 0, full, bytes, valid);
  --completing;
}

bool is_enabled(uint32_t kind) {
  const Lock lock(mutex);
  return enabled.count(kind) != 0;
}

void add_bytes(const std::vector<uint8_t>& bytes) {
  for (int tries = 0; tries < 2; ++tries) {
    {
      const Lock lock(mutex);
      if (buffer == nullptr && requested != nullptr) {
        size_t most = 0;
        requested(&buffer, &buffer_bytes, &most);
        used = 0;
      }
      if (buffer == nullptr) {
        ++dropped;
        return;
      }
      if (used + bytes.size() <= buffer_bytes) {
        std::memcpy(buffer + used, bytes.data(), bytes.size());
        used += bytes.size();
        return;
      }
    }
    complete();
  }
}

void add(const Record& record) {
  uint32_t kind;
  std::memcpy(&kind, record.bytes().data(), sizeof(kind));
  if (is_enabled(kind)) add_bytes(record.bytes());
}

const char* keep(const char* name) {
  const Lock lock(mutex);
  return name == nullptr ? nullptr : kept_names.insert(name).first->c_str();
}

}  // namespace

EXPORT void double_kernel(const char* name, uint32_t correlation, uint64_t start, uint64_t end,
                          uint32_t stream, uint64_t graph_node);

// --- CUPTI's functions ---

EXPORT int cuptiGetVersion(uint32_t* result) {
  *result = version();
  return failure("cuptiGetVersion");
}

EXPORT int cuptiGetTimestamp(uint64_t* result) {
  *result = device_ns();
  return failure("cuptiGetTimestamp");
}

EXPORT int cuptiGetResultString(int result, const char** text) {
  *text = result == 35    ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
          : result == 39  ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
          : result == 999 ? "CUPTI_ERROR_UNKNOWN"
                          : "CUPTI_ERROR_OF_THE_DOUBLE";
  return kSuccess;
}

EXPORT int cuptiGetCallbackName(uint32_t domain, uint32_t id, const char** name) {
  static const std::map<std::pair<uint32_t, uint32_t>, const char*> names = {
      {{2, 20}, "cudaMalloc_v3020"},        {{2, 22}, "cudaFree_v3020"},
      {{2, 31}, "cudaMemcpy_v3020"},        {{2, 211}, "cudaLaunchKernel_v7000"},
      {{2, 49}, "cudaMemset_v3020"},        {{2, 51}, "cudaMemsetAsync_v3020"},
      {{1, 307}, "cuLaunchKernel"},         {{2, 165}, "cudaDeviceSynchronize_v3020"},
      {{2, 311}, "cudaGraphLaunch_v10000"},
  };
  const auto found = names.find({domain, id});
  if (found == names.end()) return kInvalidParameter;
  *name = found->second;
  return kSuccess;
}

EXPORT int cuptiSubscribe(void** subscriber, Callback wanted, void*) {
  if (const int code = failure("cuptiSubscribe")) return code;
  const Lock lock(mutex);
  if (is_subscribed) return kMultipleSubscribers;
  is_subscribed = true;
  *subscriber = &is_subscribed;
  callback = wanted;
  return kSuccess;
}

EXPORT int cuptiEnableDomain(uint32_t enable, void*, uint32_t domain) {
  if (const int code = failure("cuptiEnableDomain")) return code;
  if (domain == 4) tells_synchronisations = enable != 0;
  return kSuccess;
}

EXPORT int cuptiUnsubscribe(void*) {
  const Lock lock(mutex);
  is_subscribed = false;
  tells_synchronisations = false;
  return kSuccess;
}

EXPORT int cuptiActivityRegisterCallbacks(Requested wanted, Completed done) {
  if (const int code = failure("cuptiActivityRegisterCallbacks")) return code;
  const Lock lock(mutex);
  requested = wanted;
  completed = done;
  return kSuccess;
}

EXPORT int cuptiActivityEnable(uint32_t kind) {
  if (const int code = failure("cuptiActivityEnable:" + std::to_string(kind))) return code;
  const Lock lock(mutex);
  enabled.insert(kind);
  return kSuccess;
}

EXPORT int cuptiActivityDisable(uint32_t kind) {
  ++disable_calls;
  if (kind == kKernel && is_late) {
    const uint64_t now = device_ns();
    double_kernel("late", 0, now, now + 100, 7, 0);
  }
  const Lock lock(mutex);
  enabled.erase(kind);
  return kSuccess;
}

EXPORT int cuptiActivityFlushAll(uint32_t flag) {
  ++flush_calls;
  if (flag != 0) ++forced_flushes;
  if (hangs) pause();
  complete();
  while (completing.load() != 0) usleep(100);  // it returns when all records have been given
  return kSuccess;
}

EXPORT int cuptiActivityGetNextRecord(uint8_t* start, size_t valid, void** record) {
  using Walk = int (*)(uint8_t*, size_t, void**);
  static const Walk real = [] {
    void* const library = walker.empty() ? nullptr : dlopen(walker.c_str(), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Walk>(library == nullptr ? nullptr
                                                     : dlsym(library, "cuptiActivityGetNextRecord"));
  }();
  if (!walker.empty()) return real == nullptr ? 999 : real(start, valid, record);
  uint8_t* next = start;
  if (*record != nullptr) {
    uint32_t kind;
    std::memcpy(&kind, *record, sizeof(kind));
    next = static_cast<uint8_t*>(*record) + size_of(kind);
  }
  if (next >= start + valid) return kMaxLimitReached;
  *record = next;
  return kSuccess;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* count) {
  const Lock lock(mutex);
  *count = dropped;
  dropped = 0;
  return kSuccess;
}

EXPORT int cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id) {
  ++push_calls;
  external_ids[kind].push_back(id);
  return kSuccess;
}

EXPORT int cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t* last) {
  ++pop_calls;
  std::vector<uint64_t>& ids = external_ids[kind];
  if (ids.empty()) return kQueueEmpty;
  if (last != nullptr) *last = ids.back();
  ids.pop_back();
  return kSuccess;
}

EXPORT int cuptiSetThreadIdType(uint32_t) { return failure("cuptiSetThreadIdType"); }

// --- What the GPU does, told by the program ---

EXPORT uint64_t double_now() { return device_ns(); }

// Records of calls say that they began so much too early, as a badly fitted clock would.
uint64_t early_ns = 0;
EXPORT void double_begin_calls_early(uint64_t ns) { early_ns = ns; }

// A call of the program that takes until now; gives its correlation. As CUPTI does, the record of the call is
// preceded by one for each kind of external id. `is_lost`: no record of the call, only of the ids.
EXPORT uint32_t double_call(uint32_t domain, uint32_t callback, uint32_t result, int is_lost) {
  const uint64_t start = device_ns() - early_ns;
  const uint32_t correlation = next_correlation++;
  for (const auto& [kind, ids] : external_ids) {
    if (ids.empty()) continue;
    add(Record(kExternal)
            .put(at::external::external_kind, kind)
            .put(at::external::id, ids.back())
            .put(at::external::correlation, correlation));
  }
  if (is_lost) return correlation;
  add(Record(domain == 1 ? kDriver : kRuntime)
          .put(at::api::callback, callback)
          .put(at::api::start, start)
          .put(at::api::end, device_ns())
          .put(at::api::process, static_cast<uint32_t>(getpid()))
          .put(at::api::thread, static_cast<uint32_t>(syscall(SYS_gettid)))
          .put(at::api::correlation, correlation)
          .put(at::api::result, result));
  return correlation;
}

// An id of another tool, of every kind that others use: Kineto has the custom ones 0 and 1.
EXPORT void double_push_foreign(uint64_t id) {
  for (const uint32_t kind : {1u, 3u, 4u}) external_ids[kind].push_back(id);
}

// The program waits for the GPU in a call, of which subscribers are told.
EXPORT void double_synchronise() {
  if (tells_synchronisations) callback.load()(nullptr, 4, 2, nullptr);
  double_call(2, 165, 0, 0);
}

// Another tool registers buffers of its own, as torch.profiler does; what was begun comes back to it.
EXPORT void double_take_buffers() {
  static uint8_t others[1 << 16];
  cuptiActivityRegisterCallbacks(
      [](uint8_t** given, size_t* bytes, size_t* most) {
        *given = others;
        *bytes = sizeof(others);
        *most = 0;
      },
      [](void*, uint32_t, uint8_t*, size_t, size_t) {});
}

EXPORT void double_kernel(const char* name, uint32_t correlation, uint64_t start, uint64_t end,
                          uint32_t stream, uint64_t graph_node) {
  Record record(kKernel);
  record.put<uint16_t>(at::kernel::registers, 40)
      .put(at::kernel::start, start)
      .put(at::kernel::end, end)
      .put<uint32_t>(at::kernel::device, 0)
      .put<uint32_t>(at::kernel::context, 1)
      .put(at::kernel::stream, stream)
      .put<int32_t>(at::kernel::static_shared, 1024)
      .put<int32_t>(at::kernel::dynamic_shared, 2048)
      .put(at::kernel::correlation, correlation)
      .put(at::kernel::name, keep(name))
      .put<uint64_t>(at::kernel::queued, 0)
      .put(at::kernel::graph_node, graph_node)
      .put<uint32_t>(at::kernel::graph, graph_node == 0 ? 0 : 9);
  const int32_t grid[] = {16, 2, 3}, block[] = {128, 1, 4};
  record.put(at::kernel::grid, grid).put(at::kernel::block, block);
  add(record);
}

// What copies and sets begin with; those between devices have their own places for the rest.
static Record transfer(uint32_t kind, uint64_t bytes, uint64_t start, uint64_t end) {
  return Record(kind)
      .put(at::copy::bytes, bytes)
      .put(at::copy::start, start)
      .put(at::copy::end, end)
      .put<uint32_t>(at::copy::device, 0)
      .put<uint32_t>(at::copy::context, 1)
      .put<uint32_t>(at::copy::stream, 7);
}

EXPORT void double_copy(uint32_t copy_kind, uint32_t source, uint32_t target, uint64_t bytes,
                        uint32_t correlation, uint64_t start, uint64_t end) {
  add(transfer(kMemcpy, bytes, start, end)
          .put(at::copy::copy_kind, static_cast<uint8_t>(copy_kind))
          .put(at::copy::source_kind, static_cast<uint8_t>(source))
          .put(at::copy::target_kind, static_cast<uint8_t>(target))
          .put(at::copy::correlation, correlation)
          .put<uint64_t>(at::copy::graph_node, 0)
          .put<uint32_t>(at::copy::graph, 0));
}

EXPORT void double_peer_copy(uint64_t bytes, uint32_t correlation, uint64_t start, uint64_t end) {
  add(transfer(kPeer, bytes, start, end)
          .put<uint8_t>(at::copy::copy_kind, 10)
          .put<uint8_t>(at::copy::source_kind, 3)
          .put<uint8_t>(at::copy::target_kind, 3)
          .put<uint32_t>(at::peer::source_device, 0)
          .put<uint32_t>(at::peer::target_device, 1)
          .put(at::peer::correlation, correlation)
          .put<uint64_t>(at::peer::graph_node, 0)
          .put<uint32_t>(at::peer::graph, 0));
}

EXPORT void double_set(uint64_t bytes, uint32_t correlation, uint64_t start, uint64_t end) {
  add(transfer(kMemset, bytes, start, end)
          .put<uint32_t>(at::set::value, 0)
          .put(at::copy::correlation, correlation)
          .put<uint16_t>(at::set::flags, 0)
          .put<uint16_t>(at::set::memory_kind, 3)
          .put<uint64_t>(at::copy::graph_node, 0)
          .put<uint32_t>(at::copy::graph, 0));
}

EXPORT void double_memory(int is_release, uint64_t address, uint64_t bytes, uint32_t correlation,
                          uint64_t pool) {
  add(Record(kMemory)
          .put<uint32_t>(at::memory::operation, is_release ? 2 : 1)
          .put<uint32_t>(at::memory::memory_kind, 3)
          .put(at::memory::correlation, correlation)
          .put(at::memory::address, address)
          .put(at::memory::bytes, bytes)
          .put(at::memory::time, device_ns())
          .put(at::memory::process, static_cast<uint32_t>(getpid()))
          .put<uint32_t>(at::memory::device, 0)
          .put<uint32_t>(at::memory::context, 1)
          .put<uint32_t>(at::memory::stream, 7)
          .put<uint32_t>(at::memory::pool_type, pool == 0 ? 0 : 1)
          .put(at::memory::pool_address, pool)
          .put<uint64_t>(at::memory::pool_threshold, 0)
          .put<uint64_t>(at::memory::pool_bytes, pool_bytes)
          .put<uint64_t>(at::memory::pool_used, pool_used_bytes));
}

// 1 made, 2 destroyed, 3 trimmed. Allocations of pools tell the same sizes from then on.
EXPORT void double_pool(uint32_t operation, uint64_t address, uint64_t bytes, uint64_t used_bytes,
                        uint32_t correlation) {
  pool_bytes = bytes;
  pool_used_bytes = used_bytes;
  add(Record(kPool)
          .put(at::pool::operation, operation)
          .put<uint32_t>(at::pool::pool_type, 1)
          .put(at::pool::correlation, correlation)
          .put(at::pool::process, static_cast<uint32_t>(getpid()))
          .put<uint32_t>(at::pool::device, 0)
          .put<uint64_t>(at::pool::kept, 0)
          .put(at::pool::address, address)
          .put(at::pool::bytes, bytes)
          .put<uint64_t>(at::pool::threshold, 0)
          .put(at::pool::time, device_ns())
          .put(at::pool::used, used_bytes));
}

EXPORT void double_overhead(uint32_t overhead_kind, uint64_t start, uint64_t end) {
  add(Record(kOverhead)
          .put(at::overhead::overhead_kind, overhead_kind)
          .put(at::overhead::start, start)
          .put(at::overhead::end, end));
}

EXPORT void double_device(uint32_t id, const char* name) {
  add(Record(kDevice)
          .put<uint64_t>(at::device::bandwidth, 1'555'000'000)
          .put<uint64_t>(at::device::memory_bytes, uint64_t{40} << 30)
          .put<uint32_t>(at::device::l2_bytes, 40 << 20)
          .put<uint32_t>(at::device::clock_khz, 1'410'000)
          .put<uint32_t>(at::device::multiprocessors, 108)
          .put<uint32_t>(at::device::warps, 64)
          .put<uint32_t>(at::device::shared_bytes, 164 << 10)
          .put<uint32_t>(at::device::capability_major, 8)
          .put<uint32_t>(at::device::capability_minor, 0)
          .put(at::device::id, id)
          .put(at::device::name, keep(name)));
}

// A record of a kind that nobody asked for.
EXPORT void double_record_of_kind(uint32_t kind) { add_bytes(Record(kind).bytes()); }

// So many bytes of what was written last never came, and the buffer is given back as it is.
EXPORT void double_cut(uint64_t bytes) {
  {
    const Lock lock(mutex);
    used -= bytes;
  }
  complete();
}

EXPORT void double_drop(uint64_t count) {
  const Lock lock(mutex);
  dropped += count;
}

EXPORT void double_subscribe_another_tool() {
  const Lock lock(mutex);
  is_subscribed = true;
}

EXPORT uint32_t double_disable_calls() { return disable_calls; }
EXPORT uint32_t double_flush_calls() { return flush_calls; }
EXPORT uint32_t double_forced_flushes() { return forced_flushes; }
EXPORT uint32_t double_push_calls() { return push_calls; }
EXPORT uint32_t double_pop_calls() { return pop_calls; }
EXPORT uint32_t double_open_ids() { return static_cast<uint32_t>(external_ids[5].size()); }
