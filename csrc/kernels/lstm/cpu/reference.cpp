// A layer of long short-term memory: plain loops, sums in double. A thread owns sequences. Bottleneck: the
// products, whose weights are read with strides.
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

// `memory` holds h and c of the step before, and the sums of four gates.
template <class T>
void run_sequence(const Params& p, const Buffers& buffers, int64_t n, double* memory) {
  const T* x = buffers.input_as<T>(0) + n * p.steps * p.inputs;
  const T *w = buffers.input_as<T>(1), *u = buffers.input_as<T>(2), *b = buffers.input_as<T>(3);
  T* output = buffers.output_as<T>() + n * (p.returns_sequence ? p.steps : 1) * p.cells;
  const int64_t gates = 4 * p.cells;
  double *h = memory, *c = h + p.cells, *z = c + p.cells;
  for (int64_t i = 0; i < 2 * p.cells; ++i) memory[i] = 0;
  for (int64_t step = 0; step < p.steps; ++step, x += p.inputs) {
    for (int64_t gate = 0; gate < gates; ++gate) {
      z[gate] = static_cast<double>(b[gate]);
      for (int64_t i = 0; i < p.inputs; ++i) {
        z[gate] += static_cast<double>(x[i]) * static_cast<double>(w[i * gates + gate]);
      }
      for (int64_t i = 0; i < p.cells; ++i) z[gate] += h[i] * static_cast<double>(u[i * gates + gate]);
    }
    for (int64_t i = 0; i < p.cells; ++i) {
      const auto at = [&](int64_t gate) { return z[gate * p.cells + i]; };
      c[i] = gate_of(p.recurrent_activation, at(1)) * c[i] +
             gate_of(p.recurrent_activation, at(0)) * state_of(p.activation, at(2));
      h[i] = gate_of(p.recurrent_activation, at(3)) * state_of(p.activation, c[i]);
      if (p.returns_sequence || step + 1 == p.steps) {
        output[(p.returns_sequence ? step : 0) * p.cells + i] = static_cast<T>(h[i]);
      }
    }
  }
}

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  parallel(threads, [&](int thread) {
    const Range own = split(p.batch, threads, thread);
    double* memory = buffers.workspace_as<double>() + thread * 6 * p.cells;
    for (int64_t n = own.begin; n < own.end; ++n) run_sequence<T>(p, buffers, n, memory);
  });
}

}  // namespace

PROFKIT_REFERENCE(lstm)

size_t lstm_reference_bytes(const Params& params, int threads) {
  return sizeof(double) * 6 * static_cast<size_t>(params.cells) *
         static_cast<size_t>(threads < 1 ? 1 : threads);
}

}  // namespace profkit
