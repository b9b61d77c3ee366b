// Whether the CUPTI door could open in this process, without opening it: for `profkit doctor`.
#pragma once

#include "tracer/core/api.h"

namespace profkit::tracer {

void examine_cupti(const char* wheels, profkit_cupti_findings& findings);

}  // namespace profkit::tracer
