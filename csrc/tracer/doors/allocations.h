// The allocation door: the C library's allocation functions, taken over when the library is preloaded. What
// leaves: allocate, release and unmap events of the calling thread.
#pragma once

namespace profkit::tracer {

// Whether a program's call of malloc arrives here. False when the library was loaded without LD_PRELOAD, or
// when the program brings an allocator of its own inside its executable.
bool allocations_are_interposed();

}  // namespace profkit::tracer
