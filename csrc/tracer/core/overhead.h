// What recording costs on this machine, measured when a capture starts.
#pragma once

#include "tracer/file/format.h"

namespace profkit::tracer {

// Takes about a tenth of a millisecond; cross_core_skew_ns is left at -1.
OverheadEntry measure_overhead();

// The largest step back that the clock makes when the calling thread moves from core to core; 0: none seen,
// -1: there is only one core to be on. Takes a few milliseconds; the thread may run everywhere again
// afterwards.
double measure_core_skew_ns();

}  // namespace profkit::tracer
