// Rows of a table by index: whole rows with vectors. The gradient of the table: a thread owns rows of the
// table, and goes over all indices for them, so that every sum has one order. Bottleneck: memory.
#pragma once

#include "kernels/cpu/line.inl"
#include "kernels/embedding/params.h"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct EmbeddingVectorized {
  using Params = profkit_embedding_params;

  static size_t workspace_bytes(const Params&, int, const CpuBlocking&) { return 0; }

  static void launch(const Params& p, const CpuCall& call) {
    p.direction == PROFKIT_FORWARD ? gather(p, call) : add_up(p, call);
  }

  static PROFKIT_INLINE int64_t checked(const Params& p, int64_t index) {
    if (index < 0 || index >= p.vocabulary) refuse_index(index, p.vocabulary);
    return index;
  }

  static void gather(const Params& p, const CpuCall& call) {
    const int64_t* indices = static_cast<const int64_t*>(call.inputs[0]);
    const T* table = static_cast<const T*>(call.inputs[1]);
    T* y = static_cast<T*>(call.output);
    const bool streams = passes_caches(call, p.rows * p.width * static_cast<int64_t>(sizeof(T)));
    on_threads(call.threads, [&](int thread) {
      const Part part = part_of(p.rows, 1, call.threads, thread);
      for (int64_t row = part.begin; row < part.end; ++row) {
        const T* from = table + checked(p, indices[row]) * p.width;
        if (streams) {
          stream_block(y + row * p.width, from, p.width);
        } else {
          memcpy(y + row * p.width, from, static_cast<size_t>(p.width) * sizeof(T));
        }
      }
      finish_streaming();
    });
  }

  static void add_up(const Params& p, const CpuCall& call) {
    const int64_t* indices = static_cast<const int64_t*>(call.inputs[0]);
    const T* dy = static_cast<const T*>(call.inputs[1]);
    T* sums = static_cast<T*>(call.output);
    on_threads(call.threads, [&](int thread) {
      const Part own = part_of(p.vocabulary, 1, call.threads, thread);
      memset(sums + own.begin * p.width, 0, static_cast<size_t>(own.size() * p.width) * sizeof(T));
      for (int64_t row = 0; row < p.rows; ++row) {
        const int64_t index = checked(p, indices[row]);
        if (index < own.begin || index >= own.end) continue;
        const T* const in[] = {dy + row * p.width, sums + index * p.width};
        T* const out[] = {sums + index * p.width};
        map_block<T>(in, out, p.width,
                     [](const Vec<T>(&x)[2], Vec<T>(&y)[1]) PROFKIT_INLINED { y[0] = x[0] + x[1]; });
      }
    });
  }
};

extern const CpuEntry<profkit_embedding_params> embedding_vectorized;
const CpuEntry<profkit_embedding_params> embedding_vectorized =
    EntryOf<EmbeddingVectorized, profkit_embedding_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
