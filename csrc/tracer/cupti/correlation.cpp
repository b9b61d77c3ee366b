// CUPTI's stack of external ids, kept equal to the innermost ranges of each thread.
#include "tracer/cupti/correlation.h"

#include <atomic>
#include <cerrno>

#include "tracer/core/recorder.h"

namespace profkit::tracer {

std::atomic<bool> correlates_device{false};

namespace {

std::atomic<const cupti::Functions*> functions{nullptr};

// CUPTI's own allocations belong to no range, and errno to the program.
class InCupti {
 public:
  InCupti() { ++thread_state.quiet; }
  ~InCupti() {
    --thread_state.quiet;
    errno = saved_errno_;
  }
  InCupti(const InCupti&) = delete;
  InCupti& operator=(const InCupti&) = delete;

 private:
  int saved_errno_ = errno;
};

void push(const cupti::Functions& call, uint64_t token) {
  call.push_external(cupti::kExternalKindCustom2, token);
}
void pop(const cupti::Functions& call) { call.pop_external(cupti::kExternalKindCustom2, nullptr); }

}  // namespace

void set_device_correlation(const cupti::Functions* used) {
  if (used != nullptr) functions.store(used, std::memory_order_release);
  correlates_device.store(used != nullptr, std::memory_order_release);
}

void forget_device_correlation() {
  set_device_correlation(nullptr);
  functions.store(nullptr, std::memory_order_release);
}

void ThreadRecorder::push_correlation(uint64_t begin_ticks) {
  const cupti::Functions* const call = functions.load(std::memory_order_acquire);
  if (call == nullptr) return;
  const InCupti inside;
  push(*call, token_of(begin_ticks));
  ++correlated_;
}

// The range at `index` is already off the stack. Those above it are pushed again, in order.
void ThreadRecorder::pop_correlation(uint32_t index) {
  const uint32_t above = depth_ - index;
  if (above >= correlated_) return;  // it was open before CUPTI was loaded: never pushed
  --correlated_;
  const cupti::Functions* const call = functions.load(std::memory_order_acquire);
  if (call == nullptr) return;
  const InCupti inside;
  for (uint32_t i = 0; i <= above; ++i) pop(*call);
  for (uint32_t i = index; i < depth_; ++i) push(*call, token_of(stack_[i].begin_ticks));
}

void ThreadRecorder::forget_correlations() {
  if (correlated_ == 0) return;
  const cupti::Functions* const call = functions.load(std::memory_order_acquire);
  const InCupti inside;
  for (; correlated_ != 0; --correlated_) {
    if (call != nullptr) pop(*call);
  }
}

}  // namespace profkit::tracer
