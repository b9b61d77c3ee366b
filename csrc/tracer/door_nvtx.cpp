// The NVTX_INJECTION64_PATH door.
#include "tracer/door_nvtx.h"

namespace profkit::tracer {
bool nvtx_door_is_open() { return false; }
}  // namespace profkit::tracer
