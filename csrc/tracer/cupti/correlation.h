// Gives CUPTI the range that a thread is in, as its external correlation id, so that GPU work is attributed
// to it.
#pragma once

#include "tracer/cupti/abi.h"

namespace profkit::tracer {

// Ranges that open from now on are pushed; nullptr: stop pushing. Ranges that were pushed are still popped.
void set_device_correlation(const cupti::Functions* functions);
// In a fork child: CUPTI's locks may belong to threads that are gone; nothing is popped either.
void forget_device_correlation();

}  // namespace profkit::tracer
