// Attention, a head at a time: its q, k and v are copied together, q already divided; then block by block of
// queries the scores, their softmax and the product with v, through the blocked kernel of matmul, while the
// block's scores are in the second cache. Under a causal mask a block meets no keys behind its last query. A
// thread owns heads. Bottleneck: FMA.
#pragma once

#include "kernels/attention/cpu/head.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct AttentionByHead {
  using Params = profkit_attention_params;

  struct Plan {
    int64_t block;  // queries at once
    int64_t head_length, scores_length, buffers_length;
    T *q, *k, *v, *y, *scores;
    char* buffers;
    size_t bytes;

    Plan(const Params& p, int threads, const CpuBlocking& blocking, void* workspace) {
      block = attention_queries<T>(p, 1, blocking);
      head_length = round_up(p.steps * p.width, 64);
      scores_length = round_up(block * p.steps, 64);
      buffers_length = 0;
      for (int64_t query = 0; query < p.steps; query += block) {
        const int64_t count = smaller(block, p.steps - query), keys = attention_keys(p, query + count);
        for (int is_scores = 0; is_scores < 2; ++is_scores) {
          const profkit_matmul_params product = product_of(p, is_scores, count, keys);
          const size_t needed = matmul_blocked.workspace_bytes(product, 1, attention_blocks(blocking));
          buffers_length = larger(buffers_length, round_up(static_cast<int64_t>(needed), 64));
        }
      }
      Arena arena(workspace);
      q = arena.take<T>(head_length, threads);
      k = arena.take<T>(head_length, threads);
      v = arena.take<T>(head_length, threads);
      y = arena.take<T>(block * p.width, threads);
      scores = arena.take<T>(scores_length, threads);
      buffers = arena.take<char>(buffers_length, threads);
      bytes = arena.used_bytes();
    }
  };

  static profkit_matmul_params product_of(const Params& p, bool is_scores, int64_t queries, int64_t keys) {
    if (is_scores) return {queries, keys, p.width, 1, 0, 1, 0, PROFKIT_NONE, p.dtype};
    return {queries, p.width, keys, 1, 0, 0, 0, PROFKIT_NONE, p.dtype};
  }

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    return Plan(p, threads, blocking, nullptr).bytes;
  }

  static void launch(const Params& p, const CpuCall& call) {
    const Plan plan(p, call.threads, call.blocking, call.workspace);
    on_threads(call.threads, [&](int thread) {
      const Part own = part_of(p.batch * p.heads, 1, call.threads, thread);
      for (int64_t head = own.begin; head < own.end; ++head) run_head(p, call, plan, head, thread);
    });
  }

  static void run_head(const Params& p, const CpuCall& call, const Plan& plan, int64_t head, int thread) {
    const int64_t pitch = p.heads * p.width;
    const int64_t first = attention_first(p, head);
    T *q = plan.q + thread * plan.head_length, *k = plan.k + thread * plan.head_length,
      *v = plan.v + thread * plan.head_length, *y = plan.y + thread * plan.block * p.width,
      *scores = plan.scores + thread * plan.scores_length;
    const T scale = static_cast<T>(1 / __builtin_sqrt(static_cast<double>(p.width)));
    attention_gather<T>(p, static_cast<const T*>(call.inputs[0]) + first, q, scale);
    attention_gather<T>(p, static_cast<const T*>(call.inputs[1]) + first, k, 1);
    attention_gather<T>(p, static_cast<const T*>(call.inputs[2]) + first, v, 1);
    for (int64_t query = 0; query < p.steps; query += plan.block) {
      const int64_t count = smaller(plan.block, p.steps - query), keys = attention_keys(p, query + count);
      multiply(call, plan, thread, product_of(p, true, count, keys), q + query * p.width, k, scores);
      attention_softmax<T>(p, query, count, keys, scores);
      multiply(call, plan, thread, product_of(p, false, count, keys), scores, v, y);
      T* output = static_cast<T*>(call.output) + first + query * pitch;
      for (int64_t row = 0; row < count; ++row) {
        memcpy(output + row * pitch, y + row * p.width, static_cast<size_t>(p.width) * sizeof(T));
      }
    }
  }

  static void multiply(const CpuCall& call, const Plan& plan, int thread,
                       const profkit_matmul_params& product, const T* a, const T* b, T* result) {
    char* buffers = plan.buffers + thread * plan.buffers_length;
    matmul_blocked.launch(product, {{a, b}, result, buffers, nullptr, 1, attention_blocks(call.blocking)});
  }
};

extern const CpuEntry<profkit_attention_params> attention_by_head;
const CpuEntry<profkit_attention_params> attention_by_head =
    EntryOf<AttentionByHead, profkit_attention_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
