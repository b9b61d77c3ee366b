// The gradients of a layer of long short-term memory. The steps forward once more, with every gate and state
// kept; then back through time, the gradient by the gates in the place of the gates, a product with u per
// step; last the product that the asked gradient is, over all steps at once. A thread owns sequences; of the
// gradient of the weights it makes its own sums, which are added at the end. Bottleneck: FMA; with few
// sequences reading u.
#pragma once

#include "kernels/lstm/cpu/products.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct LstmThroughTime {
  using Params = profkit_lstm_params;

  // The gradient of weights: a^T b, where a is [rows][m] and b is [rows][4 cells].
  static profkit_matmul_params of_weights(const Params& p, int64_t m, int64_t rows) {
    return {m, 4 * p.cells, rows, 1, 1, 0, 0, PROFKIT_NONE, p.dtype};
  }
  static CpuBlocking own_blocks(CpuBlocking blocking) {
    blocking.requested = {};
    return blocking;
  }
  static int64_t weight_rows(const Params& p) { return p.inputs + p.cells + 1; }

  struct Plan {
    int threads;
    int64_t sequences;  // of the busiest thread
    LstmProduct<T> of_x, of_h, by_h, by_x;
    char *packed_w, *packed_u, *packed_by_h, *packed_by_x, *buffers;
    T *x, *gates, *c, *h, *z, *dh, *dc, *sums;
    int64_t x_length, gates_length, c_length, h_length, z_length, state_length, sums_length, buffers_length;
    size_t bytes;

    Plan(const Params& p, int of_call, const CpuBlocking& blocking, void* workspace)
        : threads(static_cast<int>(smaller(of_call, p.batch))),
          sequences(ceil_div(p.batch, threads)),
          of_x(p, sequences * p.steps, 4 * p.cells, p.inputs, false, true, blocking),
          of_h(p, sequences, 4 * p.cells, p.cells, false, false, blocking),
          by_h(p, sequences, p.cells, 4 * p.cells, true, false, blocking),
          by_x(p, sequences * p.steps, p.inputs, 4 * p.cells, true, false, blocking) {
      const bool is_weights = p.direction == PROFKIT_WEIGHT_GRADIENT;
      const bool is_input = p.direction == PROFKIT_INPUT_GRADIENT;
      x_length = round_up(sequences * p.steps * p.inputs, 64);
      gates_length = round_up(checked_product(sequences * p.steps, 4 * p.cells), 64);
      c_length = round_up(sequences * p.steps * p.cells, 64);
      state_length = round_up(sequences * p.cells, 64);
      h_length = is_weights ? c_length : state_length;
      z_length = round_up(sequences * 4 * p.cells, 64);
      sums_length =
          is_weights && threads > 1 ? round_up(checked_product(weight_rows(p), 4 * p.cells), 64) : 0;
      size_t most = 0;
      const size_t of_products[] = {of_x.workspace, of_h.workspace, by_h.workspace, by_x.workspace};
      for (const size_t needed : of_products) {
        if (needed > most) most = needed;
      }
      // Threads have one sequence more or fewer, and shorter sums may need larger blocks.
      for (int64_t own = p.batch / threads; is_weights && own <= sequences; ++own) {
        const profkit_matmul_params by_weights[] = {of_weights(p, p.inputs, own * p.steps),
                                                    of_weights(p, p.cells, own * (p.steps - 1))};
        for (const profkit_matmul_params& product : by_weights) {
          if (product.k == 0) continue;
          const size_t needed = matmul_blocked.workspace_bytes(product, 1, own_blocks(blocking));
          if (needed > most) most = needed;
        }
      }
      buffers_length = round_up(static_cast<int64_t>(most), 64);
      Arena arena(workspace);
      packed_w = arena.take<char>(static_cast<int64_t>(of_x.packed_bytes));
      packed_u = arena.take<char>(static_cast<int64_t>(of_h.packed_bytes));
      packed_by_h = arena.take<char>(static_cast<int64_t>(by_h.packed_bytes));
      packed_by_x = arena.take<char>(is_input ? static_cast<int64_t>(by_x.packed_bytes) : 0);
      x = arena.take<T>(x_length, threads);
      gates = arena.take<T>(gates_length, threads);
      c = arena.take<T>(c_length, threads);
      h = arena.take<T>(h_length, threads);
      z = arena.take<T>(z_length, threads);
      dh = arena.take<T>(state_length, threads);
      dc = arena.take<T>(state_length, threads);
      sums = arena.take<T>(sums_length, threads);
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
      const bool is_first = thread == 0, is_last = thread == 1 || plan.threads == 1;
      if (is_first) plan.of_x.pack(call.inputs[1], plan.packed_w);
      if (is_first) plan.of_h.pack(call.inputs[2], plan.packed_u);
      if (is_last) plan.by_h.pack(call.inputs[2], plan.packed_by_h);
      if (is_last && p.direction == PROFKIT_INPUT_GRADIENT) plan.by_x.pack(call.inputs[1], plan.packed_by_x);
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
    if (plan.sums_length > 0) add_sums(p, call, plan);
  }

  // What a thread works on: [step][sequence][...], of its own sequences.
  struct Memory {
    T *x, *gates, *c, *h, *z, *dh, *dc;
    char* buffers;
    int64_t count;
    bool keeps_h;

    Memory(const Params& p, const Plan& plan, Part own, int thread)
        : x(plan.x + thread * plan.x_length),
          gates(plan.gates + thread * plan.gates_length),
          c(plan.c + thread * plan.c_length),
          h(plan.h + thread * plan.h_length),
          z(plan.z + thread * plan.z_length),
          dh(plan.dh + thread * plan.state_length),
          dc(plan.dc + thread * plan.state_length),
          buffers(plan.buffers + thread * plan.buffers_length),
          count(own.size()),
          keeps_h(p.direction == PROFKIT_WEIGHT_GRADIENT) {}

    T* gates_of(const Params& p, int64_t step) const { return gates + step * count * 4 * p.cells; }
    T* c_of(const Params& p, int64_t step) const { return c + step * count * p.cells; }
    T* h_of(const Params& p, int64_t step) const { return h + (keeps_h ? step : 0) * count * p.cells; }
  };

  template <bool IsSigmoid, bool IsHard>
  static void run(const Params& p, const CpuCall& call, const Plan& plan, Part own, int thread) {
    const Memory memory(p, plan, own, thread);
    forward<IsSigmoid, IsHard>(p, call, plan, own, memory);
    backward<IsSigmoid, IsHard>(p, call, plan, own, memory);
    T* output = static_cast<T*>(call.output);
    const int64_t count = memory.count, first = own.begin * p.steps;
    if (p.direction == PROFKIT_GATE_GRADIENT) {
      lstm_turn<T, true>(memory.gates, output + first * 4 * p.cells, count, p.steps, p.steps, 4 * p.cells);
    } else if (p.direction == PROFKIT_INPUT_GRADIENT) {
      plan.by_x.multiply(p.steps * count, memory.gates, call.inputs[1], nullptr, plan.packed_by_x, memory.x,
                         memory.buffers);
      lstm_turn<T, true>(memory.x, output + first * p.inputs, count, p.steps, p.steps, p.inputs);
    } else if (p.direction == PROFKIT_STATE_GRADIENT) {
      const size_t bytes = static_cast<size_t>(count * p.cells) * sizeof(T);
      memcpy(output + own.begin * p.cells, memory.dh, bytes);
      memcpy(output + (p.batch + own.begin) * p.cells, memory.dc, bytes);
    } else {
      by_weights(p, call, memory, plan.sums_length > 0 ? plan.sums + thread * plan.sums_length : output);
    }
  }

  template <bool IsSigmoid, bool IsHard>
  static void forward(const Params& p, const CpuCall& call, const Plan& plan, Part own, const Memory& m) {
    const T* x = static_cast<const T*>(call.inputs[0]) + own.begin * p.steps * p.inputs;
    lstm_turn<T, false>(x, m.x, m.count, p.steps, p.steps, p.inputs);
    plan.of_x.multiply(p.steps * m.count, m.x, call.inputs[1], static_cast<const T*>(call.inputs[3]),
                       plan.packed_w, m.gates, m.buffers);
    for (int64_t step = 0; step < p.steps; ++step) {
      const bool has_past = step > 0;
      if (has_past) {
        plan.of_h.multiply(m.count, m.h_of(p, step - 1), call.inputs[2], nullptr, plan.packed_u, m.z,
                           m.buffers);
      }
      for (int64_t n = 0; n < m.count; ++n) {
        T *gates = m.gates_of(p, step) + n * 4 * p.cells, *c = m.c_of(p, step) + n * p.cells,
          *h = m.h_of(p, step) + n * p.cells;
        const T* from_h = has_past ? m.z + n * 4 * p.cells : nullptr;
        const T* before = has_past ? m.c_of(p, step - 1) + n * p.cells : nullptr;
        for_vectors(p.cells, [&](int64_t i, const auto& line) PROFKIT_INLINED {
          Vec<T> v[4];
#pragma GCC unroll 4
          for (int k = 0; k < 4; ++k) {
            v[k] = line.read(gates + k * p.cells + i);
            if (from_h != nullptr) v[k] += line.read(from_h + k * p.cells + i);
            v[k] = k == 2 ? lstm_state<T, IsSigmoid>(v[k]) : lstm_gate<T, IsHard>(v[k]);
            line.write(gates + k * p.cells + i, v[k]);
          }
          Vec<T> now = v[0] * v[2];
          if (before != nullptr) now += v[1] * line.read(before + i);
          line.write(c + i, now);
          line.write(h + i, v[3] * lstm_state<T, IsSigmoid>(now));
        });
      }
    }
  }

  // The slope of a function, by its result.
  static PROFKIT_INLINE Vec<T> sigmoid_slope(Vec<T> y) { return y * (broadcast(static_cast<T>(1)) - y); }
  template <bool IsHard>
  static PROFKIT_INLINE Vec<T> gate_slope(Vec<T> y) {
    if (!IsHard) return sigmoid_slope(y);
    const Vec<T> zero = {}, one = broadcast(static_cast<T>(1)), slope = broadcast(static_cast<T>(0.2));
    return y > zero ? (y < one ? slope : zero) : zero;
  }
  template <bool IsSigmoid>
  static PROFKIT_INLINE Vec<T> state_slope(Vec<T> y) {
    return IsSigmoid ? sigmoid_slope(y) : broadcast(static_cast<T>(1)) - y * y;
  }

  template <bool IsSigmoid, bool IsHard>
  static void backward(const Params& p, const CpuCall& call, const Plan& plan, Part own, const Memory& m) {
    const T* dy =
        static_cast<const T*>(call.inputs[4]) + own.begin * (p.returns_sequence ? p.steps : 1) * p.cells;
    memset(m.dh, 0, static_cast<size_t>(m.count * p.cells) * sizeof(T));
    memset(m.dc, 0, static_cast<size_t>(m.count * p.cells) * sizeof(T));
    for (int64_t step = p.steps - 1; step >= 0; --step) {
      const bool has_dy = p.returns_sequence || step + 1 == p.steps;
      for (int64_t n = 0; n < m.count; ++n) {
        T *gates = m.gates_of(p, step) + n * 4 * p.cells, *dc = m.dc + n * p.cells;
        const T *dh = m.dh + n * p.cells, *c = m.c_of(p, step) + n * p.cells;
        const T* before = step > 0 ? m.c_of(p, step - 1) + n * p.cells : nullptr;
        const T* given = has_dy ? dy + (p.returns_sequence ? n * p.steps + step : n) * p.cells : nullptr;
        for_vectors(p.cells, [&](int64_t i, const auto& line) PROFKIT_INLINED {
          Vec<T> v[4];
#pragma GCC unroll 4
          for (int k = 0; k < 4; ++k) v[k] = line.read(gates + k * p.cells + i);
          Vec<T> by_h = line.read(dh + i);
          if (given != nullptr) by_h += line.read(given + i);
          const Vec<T> active = lstm_state<T, IsSigmoid>(line.read(c + i));
          const Vec<T> by_c = line.read(dc + i) + by_h * v[3] * state_slope<IsSigmoid>(active);
          const Vec<T> past = before != nullptr ? line.read(before + i) : Vec<T>{};
          line.write(gates + i, by_c * v[2] * gate_slope<IsHard>(v[0]));
          line.write(gates + p.cells + i, by_c * past * gate_slope<IsHard>(v[1]));
          line.write(gates + 2 * p.cells + i, by_c * v[0] * state_slope<IsSigmoid>(v[2]));
          line.write(gates + 3 * p.cells + i, by_h * active * gate_slope<IsHard>(v[3]));
          line.write(dc + i, by_c * v[1]);
        });
      }
      if (step == 0 && p.direction != PROFKIT_STATE_GRADIENT) break;
      plan.by_h.multiply(m.count, m.gates_of(p, step), call.inputs[2], nullptr, plan.packed_by_h, m.dh,
                         m.buffers);
    }
  }

  // By w, by u and by b, one below the other.
  static void by_weights(const Params& p, const CpuCall& call, const Memory& m, T* sums) {
    const int64_t gates = 4 * p.cells, rows = p.steps * m.count, past = rows - m.count;
    T *by_u = sums + p.inputs * gates, *by_b = by_u + p.cells * gates;
    const CpuBlocking blocking = own_blocks(call.blocking);
    matmul_blocked.launch(of_weights(p, p.inputs, rows),
                          {{m.x, m.gates}, sums, m.buffers, nullptr, 1, blocking});
    if (past == 0) {
      memset(by_u, 0, static_cast<size_t>(p.cells * gates) * sizeof(T));
    } else {
      matmul_blocked.launch(of_weights(p, p.cells, past),
                            {{m.h, m.gates_of(p, 1)}, by_u, m.buffers, nullptr, 1, blocking});
    }
    memset(by_b, 0, static_cast<size_t>(gates) * sizeof(T));
    for (int64_t row = 0; row < rows; ++row) {
      const T* values = m.gates + row * gates;
      for_vectors(gates, [&](int64_t i, const auto& line) PROFKIT_INLINED {
        line.write(by_b + i, line.read(by_b + i) + line.read(values + i));
      });
    }
  }

  static void add_sums(const Params& p, const CpuCall& call, const Plan& plan) {
    on_threads(plan.threads, [&](int thread) {
      const Part own = part_of(weight_rows(p) * 4 * p.cells, 64, plan.threads, thread);
      T* output = static_cast<T*>(call.output) + own.begin;
      for_vectors(own.size(), [&](int64_t i, const auto& line) PROFKIT_INLINED {
        Vec<T> sum = {};
        for (int k = 0; k < plan.threads; ++k)
          sum += line.read(plan.sums + k * plan.sums_length + own.begin + i);
        line.write(output + i, sum);
      });
    });
  }

  // A whole vector, or the first `count` lanes of the last one.
  struct Whole {
    PROFKIT_INLINE Vec<T> read(const T* from) const { return load(from); }
    PROFKIT_INLINE void write(T* to, Vec<T> v) const { store(to, v); }
  };
  struct First {
    int64_t count;
    PROFKIT_INLINE Vec<T> read(const T* from) const { return load_first(from, count); }
    PROFKIT_INLINE void write(T* to, Vec<T> v) const { store_first(to, v, count); }
  };
  template <class Of>
  static PROFKIT_INLINE void for_vectors(int64_t count, const Of& of) {
    constexpr int64_t width = kWidth<T>;
    int64_t i = 0;
    for (; i + width <= count; i += width) of(i, Whole{});
    if (i < count) of(i, First{count - i});
  }
};

extern const CpuEntry<profkit_lstm_params> lstm_through_time;
const CpuEntry<profkit_lstm_params> lstm_through_time =
    EntryOf<LstmThroughTime, profkit_lstm_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
