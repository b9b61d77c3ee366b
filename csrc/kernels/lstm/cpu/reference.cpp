// A layer of long short-term memory and its gradients: plain loops, sums in double. A thread owns sequences.
// Bottleneck: the products, whose weights are read with strides.
#include <algorithm>
#include <cmath>

#include "kernels/lstm/params.h"
#include "kernels/registry.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

using Params = profkit_lstm_params;

double gate_of(int64_t function, double z) {
  return function == PROFKIT_HARD_SIGMOID ? std::min(1.0, std::max(0.0, 0.2 * z + 0.5))
                                          : 1 / (1 + std::exp(-z));
}
double state_of(int64_t function, double z) {
  return function == PROFKIT_SIGMOID ? 1 / (1 + std::exp(-z)) : std::tanh(z);
}

// By the function's result.
double gate_slope(int64_t function, double y) {
  return function == PROFKIT_HARD_SIGMOID ? (y > 0 && y < 1 ? 0.2 : 0) : y * (1 - y);
}
double state_slope(int64_t function, double y) {
  return function == PROFKIT_SIGMOID ? y * (1 - y) : 1 - y * y;
}

// What a sequence keeps: the sums of the four gates, then the gates themselves, c and h of a step; forward of
// the last one only.
struct Kept {
  double *gates, *c, *h;
};
int64_t kept_steps(const Params& p) { return p.direction == PROFKIT_FORWARD ? 1 : p.steps; }
Kept kept_of(const Params& p, double* memory, int64_t step) {
  double* own = memory + (p.direction == PROFKIT_FORWARD ? 0 : step) * 6 * p.cells;
  return {own, own + 4 * p.cells, own + 5 * p.cells};
}

template <class T>
void run_step(const Params& p, const Buffers& buffers, const T* x, const Kept& before, const Kept& now) {
  const T *w = buffers.input_as<T>(1), *u = buffers.input_as<T>(2), *b = buffers.input_as<T>(3);
  const int64_t gates = 4 * p.cells;
  for (int64_t gate = 0; gate < gates; ++gate) {
    double sum = static_cast<double>(b[gate]);
    for (int64_t i = 0; i < p.inputs; ++i) {
      sum += static_cast<double>(x[i]) * static_cast<double>(w[i * gates + gate]);
    }
    for (int64_t i = 0; before.h != nullptr && i < p.cells; ++i) {
      sum += before.h[i] * static_cast<double>(u[i * gates + gate]);
    }
    now.gates[gate] =
        gate / p.cells == 2 ? state_of(p.activation, sum) : gate_of(p.recurrent_activation, sum);
  }
  for (int64_t i = 0; i < p.cells; ++i) {
    const double past = before.c != nullptr ? before.c[i] : 0;
    now.c[i] = now.gates[p.cells + i] * past + now.gates[i] * now.gates[2 * p.cells + i];
    now.h[i] = now.gates[3 * p.cells + i] * state_of(p.activation, now.c[i]);
  }
}

template <class T>
void run_forward(const Params& p, const Buffers& buffers, int64_t n, double* memory) {
  const T* x = buffers.input_as<T>(0) + n * p.steps * p.inputs;
  T* output = buffers.output_as<T>() + n * (p.returns_sequence ? p.steps : 1) * p.cells;
  for (int64_t step = 0; step < p.steps; ++step) {
    const Kept now = kept_of(p, memory, step);
    const Kept before = step > 0 ? kept_of(p, memory, step - 1) : Kept{};
    run_step<T>(p, buffers, x + step * p.inputs, before, now);
    if (p.direction != PROFKIT_FORWARD || !(p.returns_sequence || step + 1 == p.steps)) continue;
    for (int64_t i = 0; i < p.cells; ++i) {
      output[(p.returns_sequence ? step : 0) * p.cells + i] = static_cast<T>(now.h[i]);
    }
  }
}

// Back through time: the gates become the gradient by their sums; `by_state` those by h and by c before the
// first step, [2][cells].
template <class T>
void run_back(const Params& p, const Buffers& buffers, int64_t n, double* memory, double* by_state) {
  const T* u = buffers.input_as<T>(2);
  const T* dy = buffers.input_as<T>(4) + n * (p.returns_sequence ? p.steps : 1) * p.cells;
  double *dh = by_state, *dc = by_state + p.cells;
  for (int64_t i = 0; i < 2 * p.cells; ++i) by_state[i] = 0;
  for (int64_t step = p.steps - 1; step >= 0; --step) {
    const Kept now = kept_of(p, memory, step);
    const Kept before = step > 0 ? kept_of(p, memory, step - 1) : Kept{};
    for (int64_t i = 0; i < p.cells; ++i) {
      const auto gate = [&](int64_t k) -> double& { return now.gates[k * p.cells + i]; };
      const double in = gate(0), forget = gate(1), candidate = gate(2), out = gate(3);
      const double active = state_of(p.activation, now.c[i]), past = before.c != nullptr ? before.c[i] : 0;
      double by_h = dh[i];
      if (p.returns_sequence || step + 1 == p.steps) {
        by_h += static_cast<double>(dy[(p.returns_sequence ? step : 0) * p.cells + i]);
      }
      const double by_c = dc[i] + by_h * out * state_slope(p.activation, active);
      gate(0) = by_c * candidate * gate_slope(p.recurrent_activation, in);
      gate(1) = by_c * past * gate_slope(p.recurrent_activation, forget);
      gate(2) = by_c * in * state_slope(p.activation, candidate);
      gate(3) = by_h * active * gate_slope(p.recurrent_activation, out);
      dc[i] = by_c * forget;
    }
    for (int64_t i = 0; i < p.cells; ++i) {
      dh[i] = 0;
      for (int64_t k = 0; k < 4 * p.cells; ++k)
        dh[i] += now.gates[k] * static_cast<double>(u[i * 4 * p.cells + k]);
    }
  }
}

// Adds a sequence's gradients by w, by u and by b.
template <class T>
void add_weights(const Params& p, const Buffers& buffers, int64_t n, double* memory, double* sums) {
  const T* x = buffers.input_as<T>(0) + n * p.steps * p.inputs;
  const int64_t gates = 4 * p.cells;
  for (int64_t step = 0; step < p.steps; ++step, x += p.inputs) {
    const double* dz = kept_of(p, memory, step).gates;
    const double* h = step > 0 ? kept_of(p, memory, step - 1).h : nullptr;
    for (int64_t row = 0; row < p.inputs + p.cells + 1; ++row) {
      double factor = 1;
      if (row < p.inputs) {
        factor = static_cast<double>(x[row]);
      } else if (row < p.inputs + p.cells) {
        factor = h != nullptr ? h[row - p.inputs] : 0;
      }
      for (int64_t k = 0; k < gates; ++k) sums[row * gates + k] += factor * dz[k];
    }
  }
}

template <class T>
void run_gradient(const Params& p, const Buffers& buffers, int64_t n, double* memory, double* by_state) {
  run_forward<T>(p, buffers, n, memory);
  run_back<T>(p, buffers, n, memory, by_state);
  const int64_t gates = 4 * p.cells;
  if (p.direction == PROFKIT_STATE_GRADIENT) {
    for (int64_t i = 0; i < 2 * p.cells; ++i) {
      buffers.output_as<T>()[(i / p.cells * p.batch + n) * p.cells + i % p.cells] =
          static_cast<T>(by_state[i]);
    }
    return;
  }
  const T* w = buffers.input_as<T>(1);
  for (int64_t step = 0; step < p.steps; ++step) {
    const double* dz = kept_of(p, memory, step).gates;
    if (p.direction == PROFKIT_GATE_GRADIENT) {
      T* output = buffers.output_as<T>() + (n * p.steps + step) * gates;
      for (int64_t k = 0; k < gates; ++k) output[k] = static_cast<T>(dz[k]);
    } else if (p.direction == PROFKIT_INPUT_GRADIENT) {
      T* output = buffers.output_as<T>() + (n * p.steps + step) * p.inputs;
      for (int64_t i = 0; i < p.inputs; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < gates; ++k) sum += dz[k] * static_cast<double>(w[i * gates + k]);
        output[i] = static_cast<T>(sum);
      }
    }
  }
}

// Doubles of a thread: what a sequence keeps, the gradients by the state, those by the weights.
int64_t state_place(const Params& p) { return kept_steps(p) * 6 * p.cells; }
int64_t weights_place(const Params& p) { return state_place(p) + 2 * p.cells; }
int64_t weight_count(const Params& p) {
  return p.direction == PROFKIT_WEIGHT_GRADIENT ? (p.inputs + p.cells + 1) * 4 * p.cells : 0;
}
int64_t memory_length(const Params& p) { return weights_place(p) + weight_count(p); }

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  double* const first = buffers.workspace_as<double>();
  parallel(threads, [&](int thread) {
    const Range own = split(p.batch, threads, thread);
    double* memory = first + thread * memory_length(p);
    double* sums = memory + weights_place(p);
    for (int64_t i = 0; i < weight_count(p); ++i) sums[i] = 0;
    for (int64_t n = own.begin; n < own.end; ++n) {
      if (p.direction == PROFKIT_FORWARD) {
        run_forward<T>(p, buffers, n, memory);
      } else if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
        run_forward<T>(p, buffers, n, memory);
        run_back<T>(p, buffers, n, memory, memory + state_place(p));
        add_weights<T>(p, buffers, n, memory, sums);
      } else {
        run_gradient<T>(p, buffers, n, memory, memory + state_place(p));
      }
    }
  });
  for (int64_t i = 0; i < weight_count(p); ++i) {
    double sum = 0;
    for (int thread = 0; thread < threads; ++thread)
      sum += first[thread * memory_length(p) + weights_place(p) + i];
    buffers.output_as<T>()[i] = static_cast<T>(sum);
  }
}

}  // namespace

PROFKIT_REFERENCE(lstm)

size_t lstm_reference_bytes(const Params& params, int threads) {
  return sizeof(double) * static_cast<size_t>(memory_length(params)) *
         static_cast<size_t>(threads < 1 ? 1 : threads);
}

}  // namespace profkit
