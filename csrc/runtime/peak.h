// The machine's measured limits: arithmetic and copy bandwidth on a number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cpu_features.h"

namespace profkit {

// Best of several repetitions of a loop of independent fused multiply-adds; a multiply-add counts two.
double peak_flops_per_s(Simd level, bool is_double, int threads);

// Best of several copies between buffers larger than all caches together; bytes read + bytes written.
double copy_bytes_per_s(int threads);

// Nanoseconds in which a cache line goes from one processor to another and back: the least of several
// batches. 0: this system cannot place threads, or the processors were too busy to measure.
double round_trip_ns(int processor, int other);

}  // namespace profkit
