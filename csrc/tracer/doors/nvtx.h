// The NVTX door, as the rest of the tracer sees it. Programs enter through InitializeInjectionNvtx2.
#pragma once

namespace profkit::tracer {

// At least one module of the process has this library as its NVTX tool.
bool nvtx_door_is_open();

}  // namespace profkit::tracer
