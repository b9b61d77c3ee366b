// Loads CUPTI as the door does, and subscribes for a moment: that needs a driver and no other tool.
#include "tracer/cupti/examination.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "tracer/cupti/library.h"

namespace profkit::tracer {
namespace {

void ignore_callback(void*, uint32_t, uint32_t, const void*) {}

bool driver_can_be_loaded(char* reason, size_t capacity) {
  // Never closed: it is the driver of whatever this process does next.
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr) return true;
  const char* const error = dlerror();
  std::snprintf(reason, capacity, "no NVIDIA driver: %s", error == nullptr ? "libcuda.so.1" : error);
  return false;
}

}  // namespace

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
