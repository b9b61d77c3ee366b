// CRC-32C (Castagnoli, reflected, as in iSCSI and ext4): bytes in, checksum out. Used by recorder and reader.
#pragma once

#include <cstddef>
#include <cstdint>

namespace profkit::tracer {

// Start with 0; pass the result as `crc` to continue with the next piece.
uint32_t crc32c(uint32_t crc, const void* data, size_t size);

}  // namespace profkit::tracer
