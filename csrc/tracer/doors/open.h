// Which doors are open, for the rest of the tracer.
#pragma once

namespace profkit::tracer {

// At least one module of the process has this library as its NVTX tool (InitializeInjectionNvtx2).
bool nvtx_door_is_open();
// At least one module of the process has this library as its ITT collector (__itt_api_init).
bool itt_door_is_open();
// Whether a program's call of malloc arrives here. False when the library was loaded without LD_PRELOAD, or
// when the program brings its own allocator inside its executable.
bool allocations_are_interposed();

}  // namespace profkit::tracer
