// The gradients of attention by q, k and v, a head at a time: its rows are copied together, q already
// divided; then block by block of queries the scores and their softmax again, the gradient by it, and what
// both give to q, k and v: five products through the blocked kernel of matmul, while the block's scores are
// in the second cache. Under a causal mask a block meets no keys behind its last query. A thread owns heads.
// Bottleneck: FMA.
#pragma once

#include "kernels/attention/cpu/head.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct AttentionHeadGradients {
  using Params = profkit_attention_params;

  // Of one block: scores and the gradient by their softmax, then what they are multiplied by.
  enum Product { kScores, kByRows, kByKeys };
  static profkit_matmul_params product_of(const Params& p, Product product, int64_t queries, int64_t keys) {
    if (product == kScores) return {queries, keys, p.width, 1, 0, 1, 0, PROFKIT_NONE, p.dtype};
    if (product == kByRows) return {queries, p.width, keys, 1, 0, 0, 0, PROFKIT_NONE, p.dtype};
    return {keys, p.width, queries, 1, 1, 0, 0, PROFKIT_NONE, p.dtype};
  }

  struct Plan {
    int64_t block;  // queries at once
    int64_t head_length, scores_length, buffers_length;
    T *q, *k, *v, *dy, *dk, *dv, *part, *shares, *scores;
    char* buffers;
    size_t bytes;

    Plan(const Params& p, int threads, const CpuBlocking& blocking, void* workspace) {
      block = attention_queries<T>(p, 2, blocking);
      head_length = round_up(p.steps * p.width, 64);
      scores_length = round_up(block * p.steps, 64);
      buffers_length = 0;
      for (int64_t query = 0; query < p.steps; query += block) {
        const int64_t count = smaller(block, p.steps - query), keys = attention_keys(p, query + count);
        for (int product = kScores; product <= kByKeys; ++product) {
          const profkit_matmul_params params = product_of(p, static_cast<Product>(product), count, keys);
          const size_t needed = matmul_blocked.workspace_bytes(params, 1, attention_blocks(blocking));
          buffers_length = larger(buffers_length, round_up(static_cast<int64_t>(needed), 64));
        }
      }
      Arena arena(workspace);
      q = arena.take<T>(head_length, threads);
      k = arena.take<T>(head_length, threads);
      v = arena.take<T>(head_length, threads);
      dy = arena.take<T>(head_length, threads);
      dk = arena.take<T>(head_length, threads);
      dv = arena.take<T>(head_length, threads);
      part = arena.take<T>(head_length, threads);
      shares = arena.take<T>(scores_length, threads);
      scores = arena.take<T>(scores_length, threads);
      buffers = arena.take<char>(buffers_length, threads);
      bytes = arena.used_bytes();
    }
  };

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
    const int64_t first = attention_first(p, head), size = p.batch * p.steps * p.heads * p.width;
    const int64_t own = thread * plan.head_length, length = p.steps * p.width;
    T *q = plan.q + own, *k = plan.k + own, *v = plan.v + own, *dy = plan.dy + own, *dk = plan.dk + own,
      *dv = plan.dv + own, *part = plan.part + own, *shares = plan.shares + thread * plan.scores_length,
      *scores = plan.scores + thread * plan.scores_length;
    T* output = static_cast<T*>(call.output) + first;
    const T scale = static_cast<T>(1 / __builtin_sqrt(static_cast<double>(p.width)));
    T* const rows[] = {q, k, v, dy};
    for (int i = 0; i < 4; ++i) {
      attention_gather<T>(p, static_cast<const T*>(call.inputs[i]) + first, rows[i],
                          i == 0 ? scale : static_cast<T>(1));
    }
    memset(dk, 0, static_cast<size_t>(length) * sizeof(T));
    memset(dv, 0, static_cast<size_t>(length) * sizeof(T));
    for (int64_t query = 0; query < p.steps; query += plan.block) {
      const int64_t count = smaller(plan.block, p.steps - query), keys = attention_keys(p, query + count);
      const auto multiply = [&](Product product, const T* a, const T* b, T* result) {
        char* buffers = plan.buffers + thread * plan.buffers_length;
        matmul_blocked.launch(product_of(p, product, count, keys),
                              {{a, b}, result, buffers, nullptr, 1, attention_blocks(call.blocking)});
      };
      const int64_t at = query * p.width;
      multiply(kScores, q + at, k, shares);
      attention_softmax<T>(p, query, count, keys, shares);
      multiply(kByKeys, shares, dy + at, part);
      add(dv, part, keys * p.width);
      multiply(kScores, dy + at, v, scores);
      for (int64_t row = 0; row < count; ++row) by_scores(shares + row * keys, scores + row * keys, keys);
      multiply(kByKeys, scores, q + at, part);
      add(dk, part, keys * p.width);
      multiply(kByRows, scores, k, part);
      scatter(p, part, output + query * p.heads * p.width, count, scale);
    }
    scatter(p, dk, output + size, p.steps, 1);
    scatter(p, dv, output + 2 * size, p.steps, 1);
  }

  // From the gradient by the shares of a query to that by its scores: shares (gradient - its mean under
  // them).
  static void by_scores(const T* shares, T* gradient, int64_t keys) {
    constexpr int64_t width = kWidth<T>;
    Vec<T> sums = {};
    int64_t i = 0;
    for (; i + width <= keys; i += width) sums += load(shares + i) * load(gradient + i);
    const int64_t rest = keys - i;
    if (rest > 0) sums += load_first(shares + i, rest) * load_first(gradient + i, rest);
    const Vec<T> mean = broadcast(sum_of_lanes<T>(sums));
    for (i = 0; i + width <= keys; i += width) {
      store(gradient + i, load(shares + i) * (load(gradient + i) - mean));
    }
    if (rest > 0) {
      store_first(gradient + i, load_first(shares + i, rest) * (load_first(gradient + i, rest) - mean), rest);
    }
  }

  static void add(T* to, const T* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  }

  // Rows of a head into an array of all heads.
  static void scatter(const Params& p, const T* from, T* to, int64_t rows, T factor) {
    const int64_t pitch = p.heads * p.width;
    for (int64_t row = 0; row < rows; ++row, from += p.width, to += pitch) {
      for (int64_t i = 0; i < p.width; ++i) to[i] = from[i] * factor;
    }
  }
};

extern const CpuEntry<profkit_attention_params> attention_head_gradients;
const CpuEntry<profkit_attention_params> attention_head_gradients =
    EntryOf<AttentionHeadGradients, profkit_attention_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
