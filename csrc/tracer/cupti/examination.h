// What the CUPTI door would find in this process, without opening it: for people who ask before they record.
#pragma once

#include <cstdint>

namespace profkit::tracer {

struct CuptiFindings {
  uint32_t version;    // as cuptiGetVersion gives it; 0 no library
  bool is_usable;      // CUPTI can be ours now
  char library[1024];  // path
  char reason[1400];   // why it is not usable, and what to do
};
void examine_cupti(const char* wheels, CuptiFindings& findings);

}  // namespace profkit::tracer
