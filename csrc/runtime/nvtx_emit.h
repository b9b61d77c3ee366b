// profkit's own ranges for other NVTX tools (Nsight Systems): domain "profkit", names registered once.
// Input: a name, category and number; output: NVTX calls. Where the NVTX headers were absent at build time,
// or no other tool is attached, nvtx_tool_present() is false and nothing below needs calling (all are safe to
// call).
#pragma once

#include <cstdint>

namespace profkit {

// The NVTX headers were found when this was built.
bool nvtx_compiled();

// An NVTX tool that is not libprofkit_inject.so listens. The first call decides for the life of the process
// (NVTX itself looks for its tool only once) and loads the tool; later calls read one variable. profkit's own
// library records these ranges directly: sent through NVTX too they would be recorded twice.
bool nvtx_tool_present();

// A handle for a name, which the tool keeps for the life of the process: call once per name. 0 without a
// tool.
uint64_t nvtx_register(const char* name);
// A number for a category, the same for the same name. 0 (no category) without a tool.
uint32_t nvtx_category(const char* name);

struct NvtxRange {
  uint64_t name = 0;  // of nvtx_register; with 0 the call does nothing
  uint32_t category = 0;
  uint32_t payload_type =
      0;  // 0 none, 1 int64, 2 uint64, 3 float64 (as profkit_payload_type in tracer/core/api.h)
  uint64_t payload_bits = 0;
};

// A range of this thread's stack: each push that returned true needs its pop on the same thread.
bool nvtx_push(const NvtxRange& range);
void nvtx_pop();
// A range that may end on another thread. 0 when nothing was started; ending 0 does nothing.
uint64_t nvtx_range_start(const NvtxRange& range);
void nvtx_range_end(uint64_t id);
void nvtx_mark(const NvtxRange& range);

}  // namespace profkit
