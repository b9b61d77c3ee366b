// See nvtx_emit.h. Everything here is public NVTX; without its headers (PROFKIT_HAS_NVTX) only the refusals
// stay.
#include "runtime/nvtx_emit.h"

#if PROFKIT_HAS_NVTX
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#endif

namespace profkit {

#if PROFKIT_HAS_NVTX

namespace {

// The library that NVTX will load is a profkit tracer: any copy of it, or one that links to it. NVTX loads
// the same file a moment later; it is not closed in between, which a tool with threads might not tolerate.
bool is_own_tool() {
  const char* path = std::getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return false;
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  return library != nullptr && dlsym(library, "profkit_tracer") != nullptr;
}

// Without a tool NVTX gives no handle. Held until the process ends: ranges may be open to the last moment.
nvtxDomainHandle_t open_domain() { return is_own_tool() ? nullptr : nvtxDomainCreateA("profkit"); }

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = open_domain();
  return handle;
}

nvtxEventAttributes_t attributes(const NvtxRange& range) {
  nvtxEventAttributes_t result{};
  result.version = NVTX_VERSION;
  result.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  result.category = range.category;
  result.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  result.message.registered = reinterpret_cast<nvtxStringHandle_t>(range.name);
  constexpr int32_t kTypes[] = {NVTX_PAYLOAD_UNKNOWN, NVTX_PAYLOAD_TYPE_INT64,
                                NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, NVTX_PAYLOAD_TYPE_DOUBLE};
  result.payloadType = range.payload_type < 4 ? kTypes[range.payload_type] : NVTX_PAYLOAD_UNKNOWN;
  result.payload.ullValue = range.payload_bits;  // one union: the bits are the same for all three
  return result;
}

bool can_emit(const NvtxRange& range) { return range.name != 0 && domain() != nullptr; }

}  // namespace

bool nvtx_compiled() { return true; }

bool nvtx_tool_present() { return domain() != nullptr; }

uint64_t nvtx_register(const char* name) {
  if (domain() == nullptr) return 0;
  return reinterpret_cast<uint64_t>(nvtxDomainRegisterStringA(domain(), name));
}

uint32_t nvtx_category(const char* name) {
  if (domain() == nullptr) return 0;
  static std::mutex mutex;
  static std::unordered_map<std::string, uint32_t> numbers;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [entry, is_new] = numbers.emplace(name, static_cast<uint32_t>(numbers.size() + 1));
  if (is_new) nvtxDomainNameCategoryA(domain(), entry->second, name);
  return entry->second;
}

bool nvtx_push(const NvtxRange& range) {
  if (!can_emit(range)) return false;
  const nvtxEventAttributes_t event = attributes(range);
  nvtxDomainRangePushEx(domain(), &event);
  return true;
}

void nvtx_pop() {
  if (domain() != nullptr) nvtxDomainRangePop(domain());
}

uint64_t nvtx_range_start(const NvtxRange& range) {
  if (!can_emit(range)) return 0;
  const nvtxEventAttributes_t event = attributes(range);
  return nvtxDomainRangeStartEx(domain(), &event);
}

void nvtx_range_end(uint64_t id) {
  if (id != 0 && domain() != nullptr) nvtxDomainRangeEnd(domain(), id);
}

void nvtx_mark(const NvtxRange& range) {
  if (!can_emit(range)) return;
  const nvtxEventAttributes_t event = attributes(range);
  nvtxDomainMarkEx(domain(), &event);
}

#else

bool nvtx_compiled() { return false; }
bool nvtx_tool_present() { return false; }
uint64_t nvtx_register(const char*) { return 0; }
uint32_t nvtx_category(const char*) { return 0; }
bool nvtx_push(const NvtxRange&) { return false; }
void nvtx_pop() {}
uint64_t nvtx_range_start(const NvtxRange&) { return 0; }
void nvtx_range_end(uint64_t) {}
void nvtx_mark(const NvtxRange&) {}

#endif

}  // namespace profkit
