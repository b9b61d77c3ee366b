// An array under a mask: a plain loop. Bottleneck: memory.

#include "kernels/dropout/params.h"
#include "kernels/registry.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

using Params = profkit_dropout_params;

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  const T* x = buffers.input_as<T>(0);
  const T* mask = buffers.input_as<T>(1);
  T* output = buffers.output_as<T>();
  parallel(threads, [&](int thread) {
    const Range own = split(p.count, threads, thread);
    for (int64_t i = own.begin; i < own.end; ++i) output[i] = x[i] * mask[i];
  });
}

}  // namespace

void dropout_reference(const Params& params, const Buffers& buffers, int threads) {
  params.dtype == PROFKIT_FLOAT64 ? launch<double>(params, buffers, threads)
                                  : launch<float>(params, buffers, threads);
}

}  // namespace profkit
