// What the kernels of attention share: a head's rows, copied together, and blocks of its queries.
#pragma once

#include "kernels/attention/params.h"
#include "kernels/matmul/params.h"
#include "kernels/softmax/cpu/rows.inl"

namespace profkit {
namespace PROFKIT_ISA {

extern const CpuEntry<profkit_matmul_params> matmul_blocked;

// Queries at once, so that `arrays` of their scores are in half of the second cache.
template <class T>
int64_t attention_queries(const profkit_attention_params& p, int64_t arrays, const CpuBlocking& blocking) {
  const int64_t fitting = blocking.l2_bytes / 2 / (arrays * p.steps * static_cast<int64_t>(sizeof(T)));
  return larger(8, smaller(p.steps, smaller(64, fitting / 8 * 8)));
}

// Keys that the queries before `end` may see.
PROFKIT_INLINE int64_t attention_keys(const profkit_attention_params& p, int64_t end) {
  return p.causal ? end : p.steps;
}

// Where a head of a sequence begins in the arrays.
PROFKIT_INLINE int64_t attention_first(const profkit_attention_params& p, int64_t head) {
  return head / p.heads * p.steps * p.heads * p.width + head % p.heads * p.width;
}

PROFKIT_INLINE CpuBlocking attention_blocks(CpuBlocking blocking) {
  blocking.requested = {};
  return blocking;
}

// A head's rows, side by side; their pitch in the arrays is that of all heads.
template <class T>
void attention_gather(const profkit_attention_params& p, const T* from, T* to, T factor) {
  const int64_t pitch = p.heads * p.width;
  for (int64_t row = 0; row < p.steps; ++row, from += pitch, to += p.width) {
    for (int64_t i = 0; i < p.width; ++i) to[i] = from[i] * factor;
  }
}

// In place, of the scores [count][keys] of the queries from `query` on; what a query does not see becomes 0.
template <class T>
void attention_softmax(const profkit_attention_params& p, int64_t query, int64_t count, int64_t keys,
                       T* scores) {
  constexpr int64_t width = kWidth<T>;
  for (int64_t row = 0; row < count; ++row) {
    T* line = scores + row * keys;
    const int64_t seen = p.causal ? query + row + 1 : keys;
    if (seen >= width) {
      softmax_row<T>(line, line, seen, lanes_from<T>(width - seen % width));
    } else {
      softmax_short_row<T>(line, line, seen, false, lanes_from<T>(seen));
    }
    for (int64_t i = seen; i < keys; ++i) line[i] = 0;
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
