// Fibers: one stack each, switched by hand; the sanitizers are told of every switch.
#pragma once

#include <cstddef>

namespace simt {

class Fiber {
 public:
  Fiber();  // of the thread that calls: where the scheduler itself runs
  explicit Fiber(size_t stack_bytes);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The fiber will begin in entry(argument), which must never return but switch away for good.
  void begin(void (*entry)(void*), void* argument);
  // Leaves the fiber that runs (`from`) and goes on in this one; returns when somebody switches back.
  void resume(Fiber& from);

 private:
  void arrived();
  static void enter();

  void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* stack_pointer_ = nullptr;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* sanitizer_fiber_ = nullptr;  // TSan
  void* fake_stack_ = nullptr;       // ASan
  const void* known_stack_ = nullptr;
  size_t known_stack_bytes_ = 0;
};

}  // namespace simt
