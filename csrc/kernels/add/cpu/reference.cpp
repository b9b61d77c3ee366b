// The sum of two arrays: a plain loop. Bottleneck: memory.

#include "kernels/add/params.h"
#include "kernels/registry.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

using Params = profkit_add_params;

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  const T* a = buffers.input_as<T>(0);
  const T* b = buffers.input_as<T>(1);
  T* output = buffers.output_as<T>();
  parallel(threads, [&](int thread) {
    const Range own = split(p.count, threads, thread);
    for (int64_t i = own.begin; i < own.end; ++i) output[i] = a[i] + b[i];
  });
}

}  // namespace

void add_reference(const Params& params, const Buffers& buffers, int threads) {
  params.dtype == PROFKIT_FLOAT64 ? launch<double>(params, buffers, threads)
                                  : launch<float>(params, buffers, threads);
}

}  // namespace profkit
