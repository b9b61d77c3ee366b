// The CUPTI door: kernels, copies, memory and CUDA calls of this process, recorded by NVIDIA's library.
#pragma once

#include <cstdint>

#include "tracer/cupti/flusher.h"

namespace profkit::tracer {

enum class CuptiState : uint32_t {
  closed,  // not needed: the process uses no GPU, or the capture leaves it out
  open,
  failed,  // it should be open; the message says why it is not and what to do
};

struct CuptiStatus {
  CuptiState state;
  uint32_t version;    // as cuptiGetVersion gives it; 0 no library
  char library[1024];  // path
  char message[1400];  // of a failure, or what is missing though it is open
};
void get_cupti_status(CuptiStatus& status);
// Changes with every change of the status.
uint32_t cupti_status_version();
// Whether it is, or was, in the running capture.
bool cupti_door_is_open();
// A capture begins.
void reset_cupti_status();

// For a capture that begins in a process whose driver is loaded already. Otherwise the driver opens the door
// itself when the program first uses it (InitializeInjection, CUDA_INJECTION64_PATH).
void open_cupti_door_if_driver_is_here();
// Gets everything out of CUPTI, then releases it.
void close_cupti_door();
// Gets what CUPTI has so far; bounded in time, and allowed in a signal handler. False: CUPTI hangs.
bool flush_cupti(CuptiFlush what);
// CUDA does not survive fork(): the child starts without a collector, until it initialises its own driver.
void forget_cupti_in_child();

}  // namespace profkit::tracer
