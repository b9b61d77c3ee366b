// The kernel that blocks a stream: one thread polls a number in host memory until the host raises it, or
// until a time limit, because a host that waits for this stream would otherwise deadlock. It reads over the
// bus once per poll.
#pragma once

#include "kernels/cuda/device.cuh"

#if defined(PROFKIT_EMULATED)
#include <chrono>
#endif

namespace profkit::cuda {

#if defined(PROFKIT_EMULATED)
inline unsigned long long device_clock_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<unsigned long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}
#else
__device__ __forceinline__ unsigned long long device_clock_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
#endif

// What host and device share. Numbers only grow, so that nothing has to be reset while a kernel may read
// them.
struct HoldState {
  volatile unsigned released;  // written by the host: holds up to this number may end
  volatile unsigned gave_up;   // written by the device: the last hold whose time was over
};

// Included by one file only, so it is not a template as other kernels are.
__global__ void hold_stream(HoldState* state, unsigned hold, unsigned long long limit_ns) {
  const unsigned long long start = device_clock_ns();
  while (state->released < hold) {
    if (device_clock_ns() - start > limit_ns) {
      state->gave_up = hold;
      return;
    }
  }
}

}  // namespace profkit::cuda
