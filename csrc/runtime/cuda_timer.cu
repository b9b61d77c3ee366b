// Events, the shared numbers of the blocking kernel, and the buffer that flushes the cache.
#include "runtime/cuda_timer.h"

#include <cuda_runtime.h>

#include <optional>

#include "kernels/cuda/launch.cuh"
#include "runtime/cuda_hold.cuh"

namespace profkit {
namespace {

class CudaEvent {
 public:
  CudaEvent() { check_cuda(cudaEventCreateWithFlags(&handle_, cudaEventBlockingSync), "creating an event"); }
  ~CudaEvent() { cudaEventDestroy(handle_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t handle() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

// Host memory that the device sees at another address.
class SharedHoldState {
 public:
  SharedHoldState() {
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, sizeof(cuda::HoldState), cudaHostAllocMapped),
               "allocating mapped host memory");
    host_ = static_cast<cuda::HoldState*>(memory);
    host_->released = 0;
    host_->gave_up = 0;
    const cudaError_t code = cudaHostGetDevicePointer(&device_, memory, 0);
    if (code != cudaSuccess) cudaFreeHost(memory);
    check_cuda(code, "mapping host memory to the device");
  }
  ~SharedHoldState() { cudaFreeHost(host_); }
  SharedHoldState(const SharedHoldState&) = delete;
  SharedHoldState& operator=(const SharedHoldState&) = delete;
  cuda::HoldState* host() const { return host_; }
  cuda::HoldState* device() const { return static_cast<cuda::HoldState*>(device_); }

 private:
  cuda::HoldState* host_ = nullptr;
  void* device_ = nullptr;
};

}  // namespace

struct DeviceTimer::State {
  CudaCall call;
  unsigned long long limit_ns;
  unsigned hold = 0;     // the number of the last one
  bool is_held = false;  // this measurement began with a hold
  CudaEvent first, last, held;
  SharedHoldState shared;
  std::optional<DeviceMemory> flushed;
  int flush_byte = 0;

  cudaStream_t stream() const { return static_cast<cudaStream_t>(call.stream); }
};

DeviceTimer::DeviceTimer(void* stream, double give_up_after_s) : state_(std::make_unique<State>()) {
  state_->call.stream = stream;
  state_->limit_ns = static_cast<unsigned long long>(give_up_after_s * 1e9);
}

DeviceTimer::~DeviceTimer() {
  release();
  // The kernel may still read the shared numbers. This waits for the event and not for the stream, which its
  // owner may have destroyed; an error that is already pending is not this timer's.
  cudaEventSynchronize(state_->held.handle());
}

void DeviceTimer::hold() {
  state_->hold += 1;
  launch<cuda::hold_stream>({dim3(1), dim3(1)}, state_->call, state_->shared.device(), state_->hold,
                            state_->limit_ns);
  state_->is_held = true;
  check_cuda(cudaEventRecord(state_->held.handle(), state_->stream()), "recording an event");
}

void DeviceTimer::begin() {
  check_cuda(cudaEventRecord(state_->first.handle(), state_->stream()), "recording an event");
}

void DeviceTimer::end() {
  check_cuda(cudaEventRecord(state_->last.handle(), state_->stream()), "recording an event");
}

void DeviceTimer::release() { state_->shared.host()->released = state_->hold; }

DeviceTime DeviceTimer::finish() {
  check_cuda(cudaEventSynchronize(state_->last.handle()), "waiting for the device");
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, state_->first.handle(), state_->last.handle()),
             "reading the time between events");
  // A measurement without a hold is not affected by an earlier one that gave up.
  const bool gave_up = state_->is_held && state_->shared.host()->gave_up == state_->hold;
  state_->is_held = false;
  return {static_cast<double>(milliseconds) * 1e6, gave_up};
}

void DeviceTimer::flush(size_t bytes) {
  if (!state_->flushed || state_->flushed->bytes() < bytes) {
    state_->flushed.reset();  // the old one goes first: both together may not fit
    state_->flushed.emplace(bytes);
  }
  state_->flush_byte = (state_->flush_byte + 1) % 256;
  check_cuda(cudaMemsetAsync(state_->flushed->data(), state_->flush_byte, bytes, state_->stream()),
             "flushing the cache");
}

}  // namespace profkit
