// Tells CUPTI in which range a thread is, so that what the thread asks of the GPU is known to come from
// there.
#pragma once

#include "tracer/cupti/abi.h"

namespace profkit::tracer {

// Ranges that open from now on are told; nullptr: no more. Ends of those that were told still are.
void set_device_correlation(const cupti::Functions* functions);
// In a fork child: CUPTI's locks may be those of threads that are gone; not even the ends are told.
void forget_device_correlation();

}  // namespace profkit::tracer
