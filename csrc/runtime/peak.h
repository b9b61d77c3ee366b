// The machine's measured limits: arithmetic and copy bandwidth on a number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cpu_features.h"

namespace profkit {

// Best of several repetitions of a loop of independent fused multiply-adds; a multiply-add counts two.
double peak_flops_per_s(Simd level, bool is_double, int threads);

// Best of several copies between buffers much larger than the last-level cache; bytes read + bytes written.
double copy_bytes_per_s(int threads);

// Writes through a buffer larger than the last-level cache (allocated once, grown on demand), so that nothing
// of the caller's data stays cached. `bytes` 0 means twice the last-level cache. Returns the bytes walked.
int64_t flush_cache(int64_t bytes, int threads);

}  // namespace profkit
