// The start of a capture file: is it one, and can this version read it?
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/file/format.h"

namespace profkit::captures {

// Throws CaptureError. The header page is within `size`.
tracer::FileHeader checked_header(const uint8_t* data, size_t size);

}  // namespace profkit::captures
