// The tracer as profkit's own module sees it: whether anyone listens, names of ranges, and ranges of native
// code. libprofkit_inject.so is looked up at run time and may be absent; other NVTX tools get the same
// ranges.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "runtime/nvtx_emit.h"
#include "tracer/core/api.h"

namespace profkit {

// The library's table; nullptr until it is in the process. Set once, never cleared.
extern std::atomic<const profkit_tracer_api*> tracer_api;
// The library's flag, or a constant 0 without the library: testing it is all that an idle range costs.
extern std::atomic<const uint32_t*> recording_flag;
// Another NVTX tool (Nsight Systems) was there when the module was loaded.
extern bool has_nvtx_tool;

inline bool is_recording() {
  return __atomic_load_n(recording_flag.load(std::memory_order_relaxed), __ATOMIC_RELAXED) != 0;
}
inline bool has_listener() { return is_recording() || has_nvtx_tool; }

// A number as the recorder and NVTX take it; type 0: no payload.
struct Payload {
  uint32_t type = 0;
  uint64_t bits = 0;
};

// What a range is called, for each listener; made when the range is first used while someone listens.
struct RangeName {
  uint32_t label = 0;
  uint32_t nvtx_category = 0;
  uint64_t nvtx_name = 0;

  // Whether all present listeners know it.
  bool is_known() const { return (label != 0 || !is_recording()) && (nvtx_name != 0 || !has_nvtx_tool); }
  // `category.data()` may be nullptr.
  void define(std::string_view name, std::string_view category);
  NvtxRange for_nvtx(const Payload& payload) const {
    return {nvtx_name, nvtx_category, payload.type, payload.bits};
  }
};

// A range that is open; all zero when there was no listener.
struct OpenTokens {
  uint64_t recorded = 0;
  uint64_t nvtx = 0;  // 1 for a pushed range, the id of a started one
};

OpenTokens begin_range(const RangeName& name, const Payload& payload);
// `is_same_thread`: NVTX can pop only where it pushed; the recorder closes from anywhere.
void end_range(const OpenTokens& tokens, bool is_same_thread);
OpenTokens begin_span(const RangeName& name, const Payload& payload);
void end_span(const OpenTokens& tokens);
void record_mark(const RangeName& name, const Payload& payload);

// A range of native code, for the length of a C++ block; needs no GIL. Two threads must not share `name`
// before it is known.
class NativeRange {
 public:
  NativeRange(RangeName& name, std::string_view text) {
    if (!has_listener()) return;
    if (!name.is_known()) name.define(text, {});
    tokens_ = begin_range(name, {});
  }
  ~NativeRange() {
    if ((tokens_.recorded | tokens_.nvtx) != 0) end_range(tokens_, true);
  }
  NativeRange(const NativeRange&) = delete;
  NativeRange& operator=(const NativeRange&) = delete;

 private:
  OpenTokens tokens_;
};

}  // namespace profkit
