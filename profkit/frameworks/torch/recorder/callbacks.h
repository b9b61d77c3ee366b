// What torch reports: the start and end of every operator on any thread, and the memory of the recording
// thread.
#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include "session.h"

namespace profkit::torch_source {

inline Thread* current_thread() { return recording_thread(&at::RecordFunction::currentThreadId); }

// Tensors among the inputs, each as [dimensions, sizes ..., address of its memory]; what is not a tensor is
// left out.
class OperandWriter {
 public:
  explicit OperandWriter(ThreadLog& log) : log_(log) {}

  void write(Span& span, c10::ArrayRef<const c10::IValue> inputs) {
    for (const c10::IValue& input : inputs) add(input);
    if (count_ == 0) return;
    const int64_t place = log_.words.append(count_);
    if (place < 0) {
      log_.lose();
      return;
    }
    std::memcpy(&log_.words[place], words_.data(), count_ * sizeof(int64_t));
    span.operands = place;
    span.operand_words = static_cast<int32_t>(count_);
  }

 private:
  void add(const c10::IValue& value) {
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const c10::IValue& each : value.toListRef()) add(each.toTensor());
    }
  }

  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_nested() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
      return;
    const auto sizes = tensor.sizes();
    if (count_ + sizes.size() + 2 > words_.size()) return;
    words_[count_++] = static_cast<int64_t>(sizes.size());
    for (const int64_t size : sizes) words_[count_++] = size;
    const bool is_plain = tensor.has_storage() && tensor.device().is_cpu();
    words_[count_++] = is_plain ? reinterpret_cast<int64_t>(tensor.storage().data()) : 0;
  }

  ThreadLog& log_;
  size_t count_ = 0;
  std::array<int64_t, 256> words_;  // a longer list of tensors is cut
};

inline std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& function) {
  Thread* const thread = current_thread();
  if (thread == nullptr) return nullptr;
  Span* const span = thread->log->open(&function);
  if (span == nullptr) return nullptr;
  span->name = thread->names.number_of(function.name());
  span->scope = static_cast<int32_t>(function.scope());
  span->sequence = function.seqNr();
  span->forward_thread = function.forwardThreadId();
  if (function.needsInputs()) {
    try {
      OperandWriter(*thread->log).write(*span, function.inputs());
    } catch (...) {
      // The shape of a tensor of a foreign kind is not known; the span has none.
    }
  }
  span->start_ns = monotonic_ns();  // last: what recording costs belongs to the caller's time
  return nullptr;
}

inline void end_operator(const at::RecordFunction& function, at::ObserverContext*) {
  const int64_t now_ns = monotonic_ns();
  Thread* const thread = current_thread();
  if (thread != nullptr) thread->log->close(&function, now_ns);
}

// Torch asks the state of its profiler in this very place, so it must be one: a profiler that is switched off
// and yet wants to hear of memory.
class MemoryReporter : public torch::profiler::impl::ProfilerStateBase {
 public:
  MemoryReporter()
      : ProfilerStateBase(
            torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::Disabled)) {}

  bool memoryProfilingEnabled() const override {
    return session().running.load(std::memory_order_relaxed) != 0;
  }
  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  void reportMemoryUsage(void* address, int64_t bytes, size_t, size_t, c10::Device device) override {
    Thread* const thread = device.is_cpu() ? current_thread() : nullptr;
    if (thread != nullptr) thread->log->add_allocation(reinterpret_cast<uint64_t>(address), bytes);
  }
};

}  // namespace profkit::torch_source
