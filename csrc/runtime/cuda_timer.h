// Times work on a stream by the device's own clock. The host enqueues it behind a kernel that blocks the
// stream, so that the device never waits for the host between two events: only the device's time is measured.
// Input: a stream; output: nanoseconds, and whether the hold gave up because a call waited for it.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/cuda_device.h"

namespace profkit {

struct DeviceTime {
  double ns;
  // The blocking kernel reached its time limit: something between hold() and release() waited for the device,
  // and the time includes the host's pauses.
  bool gave_up;
};

// One measurement at a time: hold, begin, (enqueue), end, release, finish. Belongs to the device that is
// current when it is made.
class DeviceTimer {
 public:
  DeviceTimer(void* stream, double give_up_after_s);
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  // Nothing that is enqueued from now on starts before release(), or before the time limit.
  void hold();
  void begin();
  void end();
  // Safe without hold(): there is nothing to release then.
  void release();
  // Waits for end(); the time between begin() and end().
  DeviceTime finish();

  // Writes this many bytes of a private buffer on the stream: more than the L2 cache holds evicts everything
  // in it.
  void flush(size_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace profkit
