// CUPTI's records into entries of the capture file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/cupti/library.h"
#include "tracer/cupti/queue.h"

namespace profkit::tracer {

// Walks a buffer that CUPTI returned, with CUPTI's own function, and appends what it holds. Odd records are
// counted in device_counts.
void decode_activity_buffer(const CuptiLibrary& library, uint8_t* buffer, size_t valid_bytes,
                            DeviceAppender& appender);

}  // namespace profkit::tracer
