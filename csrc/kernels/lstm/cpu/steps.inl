// A layer of long short-term memory. The products with x of several steps are one product, through the
// blocked kernel of matmul; then step by step the product with h and the gates, fused. A thread owns
// sequences: threads never wait for each other. u and w are packed once per call, in parts by all threads.
// Bottleneck: FMA; with few sequences reading u.
#pragma once

#include "kernels/lstm/cpu/products.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct LstmSteps {
  using Params = profkit_lstm_params;

  struct Plan {
    int threads;
    int64_t sequences, chunk;  // of the busiest thread; steps whose products with x are made at once
    LstmProduct<T> of_x, of_h;
    char *packed_w, *packed_u, *buffers;
    T *x, *sums, *z, *h, *c;
    int64_t x_length, sums_length, z_length, h_length, buffers_length;
    size_t bytes;

    static int64_t steps_at_once(const Params& p, int64_t sequences, const CpuBlocking& blocking) {
      const int64_t step_bytes = sequences * (4 * p.cells + p.inputs) * static_cast<int64_t>(sizeof(T));
      return larger(1, smaller(p.steps, blocking.l2_bytes / 2 / step_bytes));
    }

    Plan(const Params& p, int of_call, const CpuBlocking& blocking, void* workspace)
        : threads(static_cast<int>(smaller(of_call, p.batch))),
          sequences(ceil_div(p.batch, threads)),
          chunk(steps_at_once(p, sequences, blocking)),
          of_x(p, sequences * chunk, 4 * p.cells, p.inputs, false, true, blocking),
          of_h(p, sequences, 4 * p.cells, p.cells, false, false, blocking) {
      Arena arena(workspace);
      packed_w = arena.take<char>(static_cast<int64_t>(of_x.packed_bytes));
      packed_u = arena.take<char>(static_cast<int64_t>(of_h.packed_bytes));
      x_length = round_up(sequences * chunk * p.inputs, 64);
      sums_length = round_up(sequences * chunk * 4 * p.cells, 64);
      z_length = round_up(sequences * 4 * p.cells, 64);
      h_length = round_up(sequences * p.cells, 64);
      buffers_length = round_up(
          static_cast<int64_t>(of_x.workspace > of_h.workspace ? of_x.workspace : of_h.workspace), 64);
      x = arena.take<T>(x_length, threads);
      sums = arena.take<T>(sums_length, threads);
      z = arena.take<T>(z_length, threads);
      h = arena.take<T>(h_length, threads);
      c = arena.take<T>(h_length, threads);
      buffers = arena.take<char>(buffers_length, threads);
      bytes = arena.used_bytes();
    }
  };

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    return Plan(p, threads, blocking, nullptr).bytes;
  }

  static void launch(const Params& p, const CpuCall& call) {
    const Plan plan(p, call.threads, call.blocking, call.workspace);
    on_threads(plan.threads < 2 ? 1 : 2, [&](int thread) {
      if (thread == 0) plan.of_x.pack(call.inputs[1], plan.packed_w);
      if (thread == 1 || plan.threads == 1) plan.of_h.pack(call.inputs[2], plan.packed_u);
    });
    on_threads(plan.threads, [&](int thread) {
      const Part own = part_of(p.batch, 1, plan.threads, thread);
      if (p.activation == PROFKIT_TANH) {
        p.recurrent_activation == PROFKIT_SIGMOID ? run<false, false>(p, call, plan, own, thread)
                                                  : run<false, true>(p, call, plan, own, thread);
      } else {
        p.recurrent_activation == PROFKIT_SIGMOID ? run<true, false>(p, call, plan, own, thread)
                                                  : run<true, true>(p, call, plan, own, thread);
      }
    });
  }

  template <bool IsSigmoid, bool IsHard>
  static void run(const Params& p, const CpuCall& call, const Plan& plan, Part own, int thread) {
    const int64_t gates = 4 * p.cells, count = own.size();
    const T* x = static_cast<const T*>(call.inputs[0]) + own.begin * p.steps * p.inputs;
    T* output = static_cast<T*>(call.output) + own.begin * (p.returns_sequence ? p.steps : 1) * p.cells;
    T *turned = plan.x + thread * plan.x_length, *sums = plan.sums + thread * plan.sums_length,
      *z = plan.z + thread * plan.z_length, *h = plan.h + thread * plan.h_length,
      *c = plan.c + thread * plan.h_length;
    char* buffers = plan.buffers + thread * plan.buffers_length;
    memset(c, 0, static_cast<size_t>(count * p.cells) * sizeof(T));
    for (int64_t first = 0; first < p.steps; first += plan.chunk) {
      const int64_t some = smaller(plan.chunk, p.steps - first);
      lstm_turn<T, false>(x + first * p.inputs, turned, count, some, p.steps, p.inputs);
      plan.of_x.multiply(some * count, turned, call.inputs[1], static_cast<const T*>(call.inputs[3]),
                         plan.packed_w, sums, buffers);
      for (int64_t step = first; step < first + some; ++step) {
        const T* of_step = sums + (step - first) * count * gates;
        if (step > 0) plan.of_h.multiply(count, h, call.inputs[2], nullptr, plan.packed_u, z, buffers);
        for (int64_t n = 0; n < count; ++n) {
          const T *from_x = of_step + n * gates, *from_h = step > 0 ? z + n * gates : nullptr;
          T *to = h + n * p.cells, *kept = c + n * p.cells;
          run_gates<IsSigmoid, IsHard>(p.cells, from_x, from_h, kept, to);
          const bool is_wanted = p.returns_sequence || step + 1 == p.steps;
          if (!is_wanted) continue;
          T* result = output + (p.returns_sequence ? n * p.steps + step : n) * p.cells;
          memcpy(result, to, static_cast<size_t>(p.cells) * sizeof(T));
        }
      }
    }
  }

  template <bool IsSigmoid, bool IsHard>
  static PROFKIT_INLINE void run_gates(int64_t cells, const T* from_x, const T* from_h, T* c, T* h) {
    constexpr int64_t width = kWidth<T>;
    const auto next = [](const Vec<T>(&sums)[4], Vec<T> kept, Vec<T>& result) PROFKIT_INLINED {
      const Vec<T> now = lstm_gate<T, IsHard>(sums[1]) * kept +
                         lstm_gate<T, IsHard>(sums[0]) * lstm_state<T, IsSigmoid>(sums[2]);
      result = lstm_gate<T, IsHard>(sums[3]) * lstm_state<T, IsSigmoid>(now);
      return now;
    };
    int64_t i = 0;
    Vec<T> sums[4], result;
    for (; i + width <= cells; i += width) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        sums[k] = load(from_x + k * cells + i);
        if (from_h != nullptr) sums[k] += load(from_h + k * cells + i);
      }
      store(c + i, next(sums, load(c + i), result));
      store(h + i, result);
    }
    if (i == cells) return;
    const int64_t rest = cells - i;
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      sums[k] = load_first(from_x + k * cells + i, rest);
      if (from_h != nullptr) sums[k] += load_first(from_h + k * cells + i, rest);
    }
    const Vec<T> now = next(sums, load_first(c + i, rest), result);
    store_first(c + i, now, rest);
    store_first(h + i, result, rest);
  }
};

extern const CpuEntry<profkit_lstm_params> lstm_steps;
const CpuEntry<profkit_lstm_params> lstm_steps = EntryOf<LstmSteps, profkit_lstm_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
