// A double of the CUDA runtime for host code that nvcc compiled: launches are checked and recorded, and run
// the emulated kernel of the same mangled name. Device memory is host memory; nothing but the code under test
// may know.
#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cudart_double_cupti.h"
#include "cudart_double_launch.h"
#include "cudart_double_state.h"
#include "cudart_double_stream.h"

using cudart_double::absence;
using cudart_double::CopyWay;
using cudart_double::errors;
using cudart_double::RuntimeCall;
using cudart_double::settings;
using cudart_double::WorkStream;

namespace {

constexpr size_t kSharedByDefault = 48 * 1024;
constexpr size_t kMostShared = 227 * 1024;

cudaError_t answer(cudaError_t code) {
  cudart_double::start_driver();
  const cudaError_t missing = absence();
  return errors().returned(missing != cudaSuccess ? missing : code);
}

// --- Kernels
// ------------------------------------------------------------------------------------------------

struct Kernel {
  std::string name;  // mangled
  size_t most_dynamic_shared = kSharedByDefault;
};

// Host functions register before main and are never forgotten: a process has one set of them.
std::map<const void*, Kernel>& kernels() {
  static std::map<const void*, Kernel> kernels;
  return kernels;
}

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
thread_local Configuration pushed;

WorkStream& stream_of(cudaStream_t stream) {
  static WorkStream* const legacy = new WorkStream;  // lives as long as the process: its thread needs no end
  return stream == nullptr ? *legacy : *reinterpret_cast<WorkStream*>(stream);
}

bool is_allowed(const Kernel& kernel, dim3 grid, dim3 block, size_t shared_bytes) {
  const size_t threads = size_t{block.x} * block.y * block.z;
  const size_t blocks = size_t{grid.x} * grid.y * grid.z;
  return threads >= 1 && threads <= 1024 && block.z <= 64 && blocks >= 1 && grid.x <= 0x7fffffffu &&
         grid.y <= 65535 && grid.z <= 65535 && shared_bytes <= kernel.most_dynamic_shared;
}

void record(const Kernel& kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  if (settings().log.empty()) return;
  std::FILE* const file = std::fopen(settings().log.c_str(), "a");
  if (file == nullptr) std::abort();
  std::fprintf(file, "{\"kernel\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], ",
               kernel.name.c_str(), grid.x, grid.y, grid.z, block.x, block.y, block.z);
  std::fprintf(file, "\"shared_bytes\": %zu, \"default_stream\": %s, \"device\": %d}\n", shared_bytes,
               stream == nullptr ? "true" : "false", settings().visible[0]);
  std::fclose(file);
}

// On the stream's thread. What breaks the rules of SIMT is a failed launch, with the reason for whoever
// debugs it.
void execute(const std::function<void()>& bound, const std::string& name) {
  if (errors().sticky() != cudaSuccess) return;
  const cudaError_t wanted = cudart_double::failure_of("execution");
  if (wanted != cudaSuccess) return errors().stick(wanted);
  try {
    bound();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cudart double: %s: %s\n", name.c_str(), error.what());
    errors().stick(cudaErrorLaunchFailure);
  }
}

cudaError_t start(const Kernel& kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                  cudaStream_t stream) {
  record(kernel, grid, block, shared_bytes, stream);
  const cudaError_t refused = cudart_double::failure_of("launch");
  if (refused != cudaSuccess) return refused;
  if (!is_allowed(kernel, grid, block, shared_bytes)) return cudaErrorInvalidConfiguration;
  auto bound = cudart_double::bound_kernel(kernel.name.c_str(), {grid.x, grid.y, grid.z},
                                           {block.x, block.y, block.z}, shared_bytes, arguments);
  if (!bound) {
    std::fprintf(stderr, "cudart double: there is no emulated kernel %s\n", kernel.name.c_str());
    return cudaErrorInvalidDeviceFunction;
  }
  const uint32_t correlation = cudart_double::tell_call(RuntimeCall::launch);
  stream_of(stream).enqueue([bound = std::move(bound), name = kernel.name, correlation] {
    const uint64_t start = cudart_double::cupti_now();
    execute(bound, name);
    cudart_double::tell_kernel(name.c_str(), correlation, start);
  });
  return cudaSuccess;
}

// --- Memory
// -------------------------------------------------------------------------------------------------

std::atomic<size_t> used_bytes{0};
std::mutex memory_mutex;
std::map<void*, size_t> allocations;

void* new_memory(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes) != 0) return nullptr;
  std::memset(memory, 0xff, bytes);
  return memory;
}

void fill_later(void* target, int byte, size_t bytes, cudaStream_t stream, RuntimeCall call) {
  const uint32_t correlation = cudart_double::tell_call(call);
  stream_of(stream).enqueue([=] {
    const uint64_t start = cudart_double::cupti_now();
    std::memset(target, byte, bytes);
    cudart_double::tell_set(bytes, correlation, start);
  });
}

// Outlives its stream and its handle while a record of it is under way, as a real one does.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  int pending = 0;
  long long ns = 0;
};
using Event = std::shared_ptr<EventState>;

Event* state_of(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

long long time_of(cudaEvent_t event) {
  const Event& state = *state_of(event);
  const std::lock_guard<std::mutex> lock(state->mutex);
  return state->ns;
}

int attribute(cudaDeviceAttr which) {
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor:
      return settings().capability / 10;
    case cudaDevAttrComputeCapabilityMinor:
      return settings().capability % 10;
    case cudaDevAttrMultiProcessorCount:
      return 4;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(kMostShared);
    case cudaDevAttrL2CacheSize:
      return 1 << 20;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
      return settings().khz;
    case cudaDevAttrGlobalMemoryBusWidth:
      return 256;
    default:
      return 0;
  }
}

}  // namespace

#define PROFKIT_DOUBLE extern "C" __attribute__((visibility("default")))

// --- What nvcc's host code calls
// ----------------------------------------------------------------------------

PROFKIT_DOUBLE void** __cudaRegisterFatBinary(void* binary) {
  static void* handle;
  handle = binary;
  return &handle;
}
PROFKIT_DOUBLE void __cudaRegisterFatBinaryEnd(void**) {}
PROFKIT_DOUBLE void __cudaUnregisterFatBinary(void**) {}
PROFKIT_DOUBLE char __cudaInitModule(void**) { return 1; }

PROFKIT_DOUBLE void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*,
                                           uint3*, dim3*, dim3*, int*) {
  kernels()[host].name = name;
}

PROFKIT_DOUBLE unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                    void* stream) {
  pushed = {grid, block, shared_bytes, static_cast<cudaStream_t>(stream)};
  return 0;
}

PROFKIT_DOUBLE cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                                      void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared_bytes = pushed.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

PROFKIT_DOUBLE cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

PROFKIT_DOUBLE cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                              size_t shared_bytes, cudaStream_t stream) {
  if (const cudaError_t before = answer(cudaSuccess)) return before;
  const auto found = kernels().find(kernel);
  if (found == kernels().end()) return answer(cudaErrorInvalidDeviceFunction);
  return answer(start(found->second, grid, block, arguments, shared_bytes, stream));
}

// --- The runtime's own functions
// ----------------------------------------------------------------------------

PROFKIT_DOUBLE const char* cudaGetErrorName(cudaError_t code) { return cudart_double::error_name(code); }
PROFKIT_DOUBLE const char* cudaGetErrorString(cudaError_t code) { return cudart_double::error_text(code); }
PROFKIT_DOUBLE cudaError_t cudaGetLastError() { return errors().take_last(); }

PROFKIT_DOUBLE cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().driver;
  return cudaSuccess;
}
PROFKIT_DOUBLE cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
PROFKIT_DOUBLE cudaError_t cudaGetDeviceCount(int* count) {
  *count = absence() == cudaSuccess ? static_cast<int>(settings().visible.size()) : 0;
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaSetDevice(int device) {
  return answer(device >= 0 && device < static_cast<int>(settings().visible.size()) ? cudaSuccess
                                                                                    : cudaErrorInvalidDevice);
}
PROFKIT_DOUBLE cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "profkit double");
  properties->totalGlobalMem = settings().memory_bytes;
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  *value = attribute(which);
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute which, int value) {
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize || static_cast<size_t>(value) > kMostShared) {
    return answer(cudaErrorInvalidValue);
  }
  kernels()[host].most_dynamic_shared = static_cast<size_t>(value);
  return answer(cudaSuccess);
}

PROFKIT_DOUBLE cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (const cudaError_t before = answer(cudaSuccess)) return before;
  const std::lock_guard<std::mutex> lock(memory_mutex);
  *memory = used_bytes + bytes <= settings().memory_bytes ? new_memory(bytes) : nullptr;
  if (*memory == nullptr) return answer(cudaErrorMemoryAllocation);
  allocations[*memory] = bytes;
  used_bytes += bytes;
  cudart_double::tell_memory(false, *memory, bytes, cudart_double::tell_call(RuntimeCall::malloc));
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaFree(void* memory) {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  const auto found = allocations.find(memory);
  if (found == allocations.end()) return answer(memory == nullptr ? cudaSuccess : cudaErrorInvalidValue);
  used_bytes -= found->second;
  cudart_double::tell_memory(true, memory, found->second, cudart_double::tell_call(RuntimeCall::free));
  allocations.erase(found);
  std::free(memory);
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = settings().memory_bytes;
  *free_bytes = settings().memory_bytes - used_bytes;
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = new_memory(bytes);
  return answer(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return answer(cudaSuccess);
}

// Copies and fills without a stream wait for the default stream and for no other, as streams made "non
// blocking" are not waited for by it: a result that is fetched too early is NaN here.
PROFKIT_DOUBLE cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t before = answer(cudaSuccess)) return before;
  const uint32_t correlation = cudart_double::tell_call(RuntimeCall::memcpy);
  stream_of(nullptr).wait();
  const uint64_t start = cudart_double::cupti_now();
  std::memcpy(target, source, bytes);
  cudart_double::tell_copy(kind == cudaMemcpyHostToDevice ? CopyWay::to_device : CopyWay::from_device, bytes,
                           correlation, start);
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaMemset(void* target, int byte, size_t bytes) {
  if (const cudaError_t before = answer(cudaSuccess)) return before;
  // Returns before it is done, as on a device.
  fill_later(target, byte, bytes, nullptr, RuntimeCall::memset);
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaMemsetAsync(void* target, int byte, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t before = answer(cudaSuccess)) return before;
  fill_later(target, byte, bytes, stream, RuntimeCall::memset_async);
  return answer(cudaSuccess);
}

PROFKIT_DOUBLE cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t before = answer(cudaSuccess)) return before;
  *stream = reinterpret_cast<cudaStream_t>(new WorkStream);
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<WorkStream*>(stream);
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  cudart_double::start_driver();
  stream_of(stream).wait();
  cudart_double::tell_synchronisation();
  return answer(cudaSuccess);
}

PROFKIT_DOUBLE cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event(std::make_shared<EventState>()));
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete state_of(event);
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t before = answer(cudaSuccess)) return before;
  const Event state = *state_of(event);
  {
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->pending += 1;
  }
  stream_of(stream).enqueue([state] {
    const long long now = cudart_double::device_ns();
    const std::lock_guard<std::mutex> lock(state->mutex);
    state->ns = now;
    state->pending -= 1;
    state->changed.notify_all();
  });
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Event state = *state_of(event);
  {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock, [&state] { return state->pending == 0; });
  }
  return answer(cudaSuccess);
}
PROFKIT_DOUBLE cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
  *milliseconds = static_cast<float>(static_cast<double>(time_of(last) - time_of(first)) * 1e-6);
  return answer(cudaSuccess);
}
