// The sum of two arrays: a plain loop. Bottleneck: memory.

#include "kernels/add/params.h"
#include "kernels/cpu/loops.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

template <class T>
void launch(const profkit_add_params& p, const Buffers& buffers, int threads) {
  elementwise<T>(buffers, threads, p.count, [](T a, T b) { return a + b; });
}

}  // namespace

PROFKIT_REFERENCE(add)

}  // namespace profkit
