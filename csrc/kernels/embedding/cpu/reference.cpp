// Rows of a table by index, and the gradient of the table: a thread owns columns. Bottleneck: memory.

#include "kernels/embedding/params.h"
#include "kernels/registry.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

using Params = profkit_embedding_params;

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  const int64_t* indices = buffers.input_as<int64_t>(0);
  const T* from = buffers.input_as<T>(1);
  T* output = buffers.output_as<T>();
  parallel(threads, [&](int thread) {
    const Range own = split(p.width, threads, thread);
    if (p.direction != PROFKIT_FORWARD) {
      for (int64_t row = 0; row < p.vocabulary; ++row) {
        for (int64_t i = own.begin; i < own.end; ++i) output[row * p.width + i] = 0;
      }
    }
    for (int64_t row = 0; row < p.rows; ++row) {
      const int64_t index = indices[row];
      if (index < 0 || index >= p.vocabulary) refuse_index(index, p.vocabulary);
      for (int64_t i = own.begin; i < own.end; ++i) {
        if (p.direction == PROFKIT_FORWARD) {
          output[row * p.width + i] = from[index * p.width + i];
        } else {
          output[index * p.width + i] += from[row * p.width + i];
        }
      }
    }
  });
}

}  // namespace

PROFKIT_REFERENCE(embedding)

}  // namespace profkit
