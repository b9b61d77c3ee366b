// Never compiled with a sanitizer: it works on stacks that are not its own.
#include "simt_fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if !defined(__x86_64__)
#error "the emulator's fibers are written for x86-64"
#endif

#if defined(PROFKIT_UNDER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(PROFKIT_UNDER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

// Saves what the System V calling convention lets a function keep, and swaps stacks.
extern "C" void profkit_switch_stacks(void** save, void* load);
asm(R"(
.text
.p2align 4
.type profkit_switch_stacks,@function
.globl profkit_switch_stacks
.hidden profkit_switch_stacks
profkit_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
.size profkit_switch_stacks, .-profkit_switch_stacks
)");

namespace simt {
namespace {
Fiber* coming_from = nullptr;
Fiber* going_to = nullptr;
}  // namespace

Fiber::Fiber() {
#if defined(PROFKIT_UNDER_TSAN)
  sanitizer_fiber_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(size_t stack_bytes) : stack_bytes_(stack_bytes) {
  stack_ =
      mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(stack_, 4096, PROT_NONE);  // an overflow is a crash here, not a wrong number elsewhere
  known_stack_ = stack_;
  known_stack_bytes_ = stack_bytes;
#if defined(PROFKIT_UNDER_TSAN)
  sanitizer_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  if (stack_ == nullptr) return;
#if defined(PROFKIT_UNDER_TSAN)
  __tsan_destroy_fiber(sanitizer_fiber_);
#endif
  munmap(stack_, stack_bytes_);
}

void Fiber::begin(void (*entry)(void*), void* argument) {
  entry_ = entry;
  argument_ = argument;
  fake_stack_ = nullptr;
#if defined(PROFKIT_UNDER_ASAN)
  __asan_unpoison_memory_region(static_cast<char*>(stack_) + 4096, stack_bytes_ - 4096);
#endif
  auto* top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack_) + stack_bytes_) & ~uintptr_t{15});
  *--top = nullptr;  // where a return address would be: keeps the stack aligned as a call leaves it
  *--top = reinterpret_cast<void*>(&Fiber::enter);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  stack_pointer_ = top;
}

void Fiber::enter() {
  Fiber* const me = going_to;
  me->arrived();
  me->entry_(me->argument_);
  __builtin_trap();
}

void Fiber::arrived() {
#if defined(PROFKIT_UNDER_ASAN)
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
  // The scheduler's own stack is known only from here.
  if (coming_from->known_stack_ == nullptr) {
    coming_from->known_stack_ = bottom;
    coming_from->known_stack_bytes_ = size;
  }
#endif
}

void Fiber::resume(Fiber& from) {
  coming_from = &from;
  going_to = this;
#if defined(PROFKIT_UNDER_ASAN)
  __sanitizer_start_switch_fiber(&from.fake_stack_, known_stack_, known_stack_bytes_);
#endif
#if defined(PROFKIT_UNDER_TSAN)
  __tsan_switch_to_fiber(sanitizer_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  profkit_switch_stacks(&from.stack_pointer_, stack_pointer_);
  from.arrived();
}

}  // namespace simt
