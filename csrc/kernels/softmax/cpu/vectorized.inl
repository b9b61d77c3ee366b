// Softmax of every row, and the gradient of its cross-entropy, with vectors (cpu/rows.inl). A thread owns
// whole rows. Bottleneck: the arithmetic of the exponential.
#pragma once

#include "kernels/softmax/cpu/rows.inl"
#include "kernels/softmax/params.h"

namespace profkit {
namespace PROFKIT_ISA {

template <class T, bool Labels>
void softmax_rows(const profkit_softmax_params& p, const CpuCall& call) {
  constexpr int64_t width = kWidth<T>;
  const auto own = lanes_from<T>(width - p.classes % width), beyond = lanes_from<T>(p.classes);
  on_threads(call.threads, [&](int thread) {
    const Part rows = part_of(p.rows, 1, call.threads, thread);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const T* x = static_cast<const T*>(call.inputs[0]) + row * p.classes;
      const T* labels = Labels ? static_cast<const T*>(call.inputs[1]) + row * p.classes : nullptr;
      T* y = static_cast<T*>(call.output) + row * p.classes;
      if (p.classes >= width) {
        softmax_row<T, Labels>(x, y, p.classes, own, labels);
      } else {
        softmax_short_row<T, Labels>(x, y, p.classes, (rows.end - row) * p.classes >= width, beyond, labels);
      }
    }
  });
}

template <class T>
struct SoftmaxVectorized {
  static size_t workspace_bytes(const profkit_softmax_params&, int, const CpuBlocking&) { return 0; }

  static void launch(const profkit_softmax_params& p, const CpuCall& call) {
    p.direction == PROFKIT_FORWARD ? softmax_rows<T, false>(p, call) : softmax_rows<T, true>(p, call);
  }
};

extern const CpuEntry<profkit_softmax_params> softmax_vectorized;
const CpuEntry<profkit_softmax_params> softmax_vectorized =
    EntryOf<SoftmaxVectorized, profkit_softmax_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
