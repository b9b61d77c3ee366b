// Starting emulated kernels, and finding them by name: the libcudart double gets nothing but the mangled
// name.
#pragma once

#include <functional>
#include <tuple>
#include <utility>

#include "simt.h"

namespace simt {

enum class Order { ascending, descending, random };
void set_order(Order order, uint64_t seed);

using Body = void (*)(void* context);
// Runs all blocks; throws Error with the block, the threads and the place when the kernel breaks the rules.
void run(dim3 grid, dim3 block, size_t dynamic_shared_bytes, Body body, void* context);
void fill_zero(void* target, size_t bytes);

// A launch of a kernel whose arguments lie behind `arguments`, as cudaLaunchKernel has them; they are copied.
using Binder = std::function<void()> (*)(dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                                         void** arguments);
bool enrol(const void* kernel, Binder binder);
Binder binder_of(const char* mangled_name);  // null: no such kernel

template <auto kernel>
struct Emulated;

template <class... Parameters, void (*kernel)(Parameters...)>
struct Emulated<kernel> {
  using Values = std::tuple<std::remove_const_t<Parameters>...>;

  static void start(dim3 grid, dim3 block, size_t dynamic_shared_bytes, Values& values) {
    // Each thread gets its own copy of the arguments, as on a GPU.
    run(
        grid, block, dynamic_shared_bytes,
        [](void* context) {
          const Values own = *static_cast<const Values*>(context);
          std::apply(kernel, own);
        },
        &values);
  }

  static std::function<void()> bind(dim3 grid, dim3 block, size_t dynamic_shared_bytes, void** arguments) {
    return bind_all(grid, block, dynamic_shared_bytes, arguments, std::index_sequence_for<Parameters...>{});
  }

  template <size_t... place>
  static std::function<void()> bind_all(dim3 grid, dim3 block, size_t dynamic_shared_bytes, void** arguments,
                                        std::index_sequence<place...>) {
    Values values{*static_cast<std::tuple_element_t<place, Values>*>(arguments[place])...};
    return [=]() mutable { start(grid, block, dynamic_shared_bytes, values); };
  }

  static inline const bool is_enrolled = enrol(reinterpret_cast<const void*>(kernel), bind);
};

template <auto kernel, class... Arguments>
void start(dim3 grid, dim3 block, size_t dynamic_shared_bytes, Arguments... arguments) {
  static_cast<void>(Emulated<kernel>::is_enrolled);
  typename Emulated<kernel>::Values values{arguments...};
  Emulated<kernel>::start(grid, block, dynamic_shared_bytes, values);
}

}  // namespace simt
