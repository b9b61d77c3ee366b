// Finds, loads and checks libcupti.
#include "tracer/cupti/library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace profkit::tracer {
namespace {

constexpr const char* kSystemNames[] = {"libcupti.so.13", "libcupti.so.12"};

// CUDA's driver, if it is in this process; closed again at the end.
class Driver {
 public:
  Driver() : handle_(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {}
  ~Driver() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  explicit operator bool() const { return handle_ != nullptr; }
  template <class Function>
  Function find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle_, name));
  }

 private:
  void* handle_;
};

// CUDA's driver says what it can serve; 0: it is not in this process.
uint32_t driver_major() {
  const Driver driver;
  const auto get = driver.find<int32_t (*)(int*)>("cuDriverGetVersion");
  int version = 0;
  return get != nullptr && get(&version) == 0 ? static_cast<uint32_t>(version) / 1000 : 0;
}

// A library of a later CUDA than the driver's cannot work; those without a number in their name may.
bool suits_driver(const char* name, uint32_t driver) {
  const char* const number = std::strstr(name, ".so.");
  return driver == 0 || number == nullptr || std::strtoul(number + 4, nullptr, 10) <= driver;
}

template <class Function>
bool resolve(void* handle, const char* name, Function& function, const char*& missing) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr && missing == nullptr) missing = name;
  return function != nullptr;
}

// nullptr, or the name of a function that the library lacks.
const char* resolve_all(void* handle, cupti::Functions& call) {
  const char* missing = nullptr;
  resolve(handle, "cuptiGetVersion", call.get_version, missing);
  resolve(handle, "cuptiGetTimestamp", call.get_timestamp, missing);
  resolve(handle, "cuptiGetResultString", call.get_result_string, missing);
  resolve(handle, "cuptiGetCallbackName", call.get_callback_name, missing);
  resolve(handle, "cuptiSubscribe", call.subscribe, missing);
  resolve(handle, "cuptiUnsubscribe", call.unsubscribe, missing);
  resolve(handle, "cuptiEnableDomain", call.enable_domain, missing);
  resolve(handle, "cuptiActivityRegisterCallbacks", call.register_callbacks, missing);
  resolve(handle, "cuptiActivityEnable", call.enable, missing);
  resolve(handle, "cuptiActivityDisable", call.disable, missing);
  resolve(handle, "cuptiActivityFlushAll", call.flush_all, missing);
  resolve(handle, "cuptiActivityGetNextRecord", call.get_next_record, missing);
  resolve(handle, "cuptiActivityGetNumDroppedRecords", call.get_dropped, missing);
  resolve(handle, "cuptiActivityPushExternalCorrelationId", call.push_external, missing);
  resolve(handle, "cuptiActivityPopExternalCorrelationId", call.pop_external, missing);
  resolve(handle, "cuptiSetThreadIdType", call.set_thread_id_type, missing);
  return missing;
}

void note_path(void* handle, const char* asked, CuptiLibrary& library) {
  link_map* map = nullptr;
  const bool is_known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0';
  std::snprintf(library.path, sizeof(library.path), "%s", is_known ? map->l_name : asked);
}

// The first reason is reported: it is about the library that should have been used.
void give_reason(CuptiLibrary& library, const char* what, const char* detail) {
  if (library.reason[0] != '\0') return;
  std::snprintf(library.reason, sizeof(library.reason), "%s: %s", what, detail);
}

bool use(void* handle, const char* asked, CuptiLibrary& library) {
  note_path(handle, asked, library);
  if (const char* const missing = resolve_all(handle, library.call)) {
    char text[160];
    std::snprintf(text, sizeof(text), "it has no function %s: is it CUPTI of CUDA 12 or 13?", missing);
    give_reason(library, library.path, text);
    return false;
  }
  if (library.call.get_version(&library.version) != cupti::kSuccess) library.version = 0;
  if (cupti_major(library.version) != 0) return true;
  char text[160];
  std::snprintf(text, sizeof(text),
                "its version %u is not one of CUDA 12 or 13, whose records this profkit can read",
                library.version);
  give_reason(library, library.path, text);
  return false;
}

bool try_open(const char* name, CuptiLibrary& library, int flags = 0) {
  void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);
  if (handle == nullptr) {
    const char* const error = dlerror();
    if (flags == 0 && std::strchr(name, '/') != nullptr) give_reason(library, name, error ? error : "?");
    return false;
  }
  // Never closed once it was called: it may have started threads.
  return use(handle, name, library);
}

bool try_wheels(const char* list, uint32_t driver, CuptiLibrary& library) {
  char path[1024];
  while (list != nullptr && *list != '\0') {
    const size_t length = std::strcspn(list, ":");
    if (length != 0 && length < sizeof(path)) {
      std::memcpy(path, list, length);
      path[length] = '\0';
      if (suits_driver(path, driver) && try_open(path, library)) return true;
    }
    list += length + (list[length] == ':' ? 1 : 0);
  }
  return false;
}

void ignore_callback(void*, uint32_t, uint32_t, const void*) {}

bool driver_can_be_loaded(char* reason, size_t capacity) {
  // Never closed: it is the driver of whatever this process does next.
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr) return true;
  const char* const error = dlerror();
  std::snprintf(reason, capacity, "no NVIDIA driver: %s", error == nullptr ? "libcuda.so.1" : error);
  return false;
}

}  // namespace

uint32_t cupti_major(uint32_t version) {
  // CUDA 12.0 and 12.1 call themselves 18 as 11.8 does, though their headers list 19. The records of all
  // three begin alike.
  if (version >= 18 && version < 100) return 12;
  const uint32_t major = version / 10000;  // since 13.0: xxyyzz
  return major == 13 ? major : 0;
}

const char* cupti_error_name(const CuptiLibrary& library, int32_t result) {
  const char* text = nullptr;
  if (library.call.get_result_string == nullptr) return "?";
  return library.call.get_result_string(result, &text) == cupti::kSuccess && text != nullptr ? text : "?";
}

const char* cupti_advice(int32_t result) {
  switch (result) {
    case cupti::kMultipleSubscribers:
      return "another tool in this process uses CUPTI (torch.profiler, Nsight, another profiler); end it, or "
             "trace without it. Until then kernels are timed only where profkit launches them itself, by "
             "CUDA events";
    case cupti::kInsufficientPrivileges:
    case cupti::kVirtualisedInsufficientPrivileges:
      return "the driver keeps profiling for administrators: run as root, give the container CAP_SYS_ADMIN, "
             "or load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0";
    case cupti::kNotCompatible:
      return "it does not fit the driver or another tool's mode of profiling; install the CUPTI of the "
             "driver's CUDA version, and end other profilers";
    case cupti::kUnknownError:
      return "is there an NVIDIA driver and a device? nvidia-smi shows them";
    default:
      return "see NVIDIA's documentation of CUPTI for this code";
  }
}

bool driver_is_loaded() { return static_cast<bool>(Driver()); }

bool driver_is_in_use() {
  const Driver driver;
  const auto get_context = driver.find<int32_t (*)(void**)>("cuCtxGetCurrent");
  constexpr int32_t kNotInitialized = 3;
  void* context = nullptr;
  return get_context != nullptr && get_context(&context) != kNotInitialized;
}

bool load_cupti(CuptiLibrary& library, const char* wheels) {
  library.reason[0] = '\0';
  if (const char* const wanted = std::getenv("PROFKIT_CUPTI_LIBRARY"); wanted != nullptr && *wanted != '\0') {
    if (try_open(wanted, library)) return true;
    give_reason(library, "PROFKIT_CUPTI_LIBRARY", "there is no such library");
    return false;
  }
  for (const char* name : kSystemNames) {
    if (try_open(name, library, RTLD_NOLOAD)) return true;
  }
  const uint32_t driver = driver_major();
  if (try_wheels(wheels, driver, library)) return true;
  for (const char* name : kSystemNames) {
    if (suits_driver(name, driver) && try_open(name, library)) return true;
  }
  give_reason(library, "no libcupti.so.13 or libcupti.so.12 was found",
              "install it beside the driver (pip install nvidia-cuda-cupti for CUDA 13, "
              "nvidia-cuda-cupti-cu12 for CUDA 12) or set PROFKIT_CUPTI_LIBRARY");
  return false;
}

void examine_cupti(const char* wheels, profkit_cupti_findings& findings) {
  static CuptiLibrary library;  // several KiB; one caller at a time
  findings = {};
  const bool has_driver = driver_can_be_loaded(findings.reason, sizeof(findings.reason));
  const bool is_loaded = load_cupti(library, wheels);
  findings.version = library.version;
  std::memcpy(findings.library, library.path, sizeof(findings.library));
  if (!is_loaded) {
    std::snprintf(findings.reason, sizeof(findings.reason), "%s", library.reason);
    return;
  }
  if (!has_driver) return;
  cupti::Subscriber subscriber = nullptr;
  const int32_t result = library.call.subscribe(&subscriber, ignore_callback, nullptr);
  findings.is_usable = result == cupti::kSuccess ? 1 : 0;
  if (findings.is_usable != 0) {
    library.call.unsubscribe(subscriber);
  } else {
    std::snprintf(findings.reason, sizeof(findings.reason), "cuptiSubscribe gives %d (%s): %s", result,
                  cupti_error_name(library, result), cupti_advice(result));
  }
}

}  // namespace profkit::tracer
