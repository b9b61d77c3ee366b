// A step of an optimiser with vectors, all arrays in one pass. Bottleneck: memory.
#pragma once

#include "kernels/cpu/line.inl"
#include "kernels/cpu/roots.inl"
#include "kernels/optimiser_step/params.h"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct OptimiserVectorized {
  using Params = profkit_optimiser_step_params;

  static size_t workspace_bytes(const Params&, int, const CpuBlocking&) { return 0; }

  // The arrays of an optimiser with some states: the weights, the gradient and the states in; weights and
  // states out.
  template <int States, class Of>
  static void run(const Params& p, const CpuCall& call, const Of& of) {
    const T* in[2 + States];
    T* out[1 + States];
    for (int k = 0; k < 2 + States; ++k) in[k] = static_cast<const T*>(call.inputs[k]);
    for (int k = 0; k < 1 + States; ++k) out[k] = static_cast<T*>(call.output) + k * p.count;
    map_line<T>(call, p.count, in, out, of);
  }

  static void launch(const Params& p, const CpuCall& call) {
    const auto number = [](double x) { return broadcast(static_cast<T>(x)); };
    const Vec<T> decay = number(p.weight_decay), rate = number(p.learning_rate), epsilon = number(p.epsilon);
    if (p.optimiser == PROFKIT_ADAM) {
      const Vec<T> beta1 = number(p.beta1), beta2 = number(p.beta2), rest1 = number(1 - p.beta1),
                   rest2 = number(1 - p.beta2), unbiased = number(p.adam_rate), root = number(p.adam_root);
      return run<2>(p, call, [=](const Vec<T>(&x)[4], Vec<T>(&y)[3]) PROFKIT_INLINED {
        const Vec<T> g = x[1] + decay * x[0];
        y[1] = beta1 * x[2] + rest1 * g;
        y[2] = beta2 * x[3] + rest2 * (g * g);
        y[0] = x[0] - unbiased * y[1] / (roots<T>(y[2]) * root + epsilon);
      });
    }
    if (p.optimiser == PROFKIT_RMSPROP) {
      const Vec<T> rho = number(p.rho), rest = number(1 - p.rho);
      return run<1>(p, call, [=](const Vec<T>(&x)[3], Vec<T>(&y)[2]) PROFKIT_INLINED {
        const Vec<T> g = x[1] + decay * x[0];
        y[1] = rho * x[2] + rest * (g * g);
        y[0] = x[0] - rate * g / (roots<T>(y[1]) + epsilon);
      });
    }
    if (p.momentum == 0) {
      return run<0>(p, call, [=](const Vec<T>(&x)[2], Vec<T>(&y)[1]) PROFKIT_INLINED {
        y[0] = x[0] - rate * (x[1] + decay * x[0]);
      });
    }
    // Without Nesterov's momentum the velocity itself is the way.
    const Vec<T> momentum = number(p.momentum), along = number(p.nesterov ? p.momentum : 1),
                 ahead = number(p.nesterov ? 1 : 0);
    run<1>(p, call, [=](const Vec<T>(&x)[3], Vec<T>(&y)[2]) PROFKIT_INLINED {
      const Vec<T> g = x[1] + decay * x[0];
      y[1] = momentum * x[2] + g;
      y[0] = x[0] - rate * (ahead * g + along * y[1]);
    });
  }
};

extern const CpuEntry<profkit_optimiser_step_params> optimiser_step_vectorized;
const CpuEntry<profkit_optimiser_step_params> optimiser_step_vectorized =
    EntryOf<OptimiserVectorized, profkit_optimiser_step_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
