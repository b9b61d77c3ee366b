// An array under a mask: a plain loop. Bottleneck: memory.

#include "kernels/cpu/loops.h"
#include "kernels/dropout/params.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

template <class T>
void launch(const profkit_dropout_params& p, const Buffers& buffers, int threads) {
  elementwise<T>(buffers, threads, p.count, [](T x, T mask) { return x * mask; });
}

}  // namespace

PROFKIT_REFERENCE(dropout)

}  // namespace profkit
