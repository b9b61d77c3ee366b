// Between the CUDA runtime's double, which sees CUDA's own types, and the SIMT layer, which has its own ones
// of the same names.
#pragma once

#include <cstddef>
#include <functional>

namespace cudart_double {

struct Extent {
  unsigned x, y, z;
};

// The emulated kernel of this mangled name with a copy of its arguments; empty when there is none.
std::function<void()> bound_kernel(const char* name, Extent grid, Extent block, size_t dynamic_shared_bytes,
                                   void** arguments);

// What events tell: the host's clock, or a fake one that goes on by a microsecond with every thread of a
// kernel that ran, which is the same on a busy machine.
long long device_ns();

}  // namespace cudart_double
