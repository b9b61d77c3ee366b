// CUPTI as found on this machine: loaded at run time, checked, its functions resolved.
#pragma once

#include <cstdint>

#include "tracer/core/api.h"
#include "tracer/cupti/abi.h"

namespace profkit::tracer {

struct CuptiLibrary {
  cupti::Functions call{};
  uint32_t version = 0;    // as cuptiGetVersion gives it
  char path[1024] = {};    // as the loader knows it
  char reason[1200] = {};  // why it cannot be used
};

// Looks at PROFKIT_CUPTI_LIBRARY (and nowhere else when it is set), then at what the process has loaded
// already (two copies of CUPTI in one process disturb each other), at `wheels` (paths with a colon between
// them; may be nullptr), and at the system's. False: `reason` says why.
bool load_cupti(CuptiLibrary& library, const char* wheels);

// 12 or 13 from what cuptiGetVersion gives; 0 for a version whose records this collector does not know.
uint32_t cupti_major(uint32_t version);

// "CUPTI_ERROR_UNKNOWN" or the like; never nullptr.
const char* cupti_error_name(const CuptiLibrary& library, int32_t result);
// What an error code means for the person who sees it, and the next step.
const char* cupti_advice(int32_t result);

// Whether CUDA's driver is loaded in this process, and whether the program has used it.
bool driver_is_loaded();
bool driver_is_in_use();

// Whether the CUPTI door could open in this process, without opening it: for `profkit doctor`. Loads CUPTI as
// the door does, and subscribes for a moment: that needs a driver and no other tool.
void examine_cupti(const char* wheels, profkit_cupti_findings& findings);

}  // namespace profkit::tracer
