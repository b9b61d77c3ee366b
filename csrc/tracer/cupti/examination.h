// What the CUPTI door would find in this process, without opening it: for people who ask before they record.
#pragma once

#include "tracer/core/api.h"

namespace profkit::tracer {

void examine_cupti(const char* wheels, profkit_cupti_findings& findings);

}  // namespace profkit::tracer
