// A function of every element, or its gradient, with vectors. Bottleneck: memory; of the functions with an
// exponential arithmetic, where the arrays stay in a cache.
#pragma once

#include "kernels/activation/params.h"
#include "kernels/cpu/exponential.inl"
#include "kernels/cpu/line.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
PROFKIT_INLINE Vec<T> number(double x) {
  return broadcast(static_cast<T>(x));
}

// Each has the function and its slope.
template <class T>
struct Relu {
  static PROFKIT_INLINE Vec<T> value(Vec<T> x) { return relu<T>(x); }
  static PROFKIT_INLINE Vec<T> slope(Vec<T> x) { return x > Vec<T>{} ? number<T>(1) : Vec<T>{}; }
};
template <class T>
struct Tanh {
  static PROFKIT_INLINE Vec<T> value(Vec<T> x) { return hyperbolic_tangent<T>(x); }
  static PROFKIT_INLINE Vec<T> slope(Vec<T> x) {
    const Vec<T> y = value(x);
    return number<T>(1) - y * y;
  }
};
template <class T>
struct ScaledTanh {
  static PROFKIT_INLINE Vec<T> value(Vec<T> x) {
    return number<T>(1.7159) * hyperbolic_tangent<T>(number<T>(2.0 / 3) * x);
  }
  static PROFKIT_INLINE Vec<T> slope(Vec<T> x) {
    return number<T>(1.7159 * 2 / 3) * Tanh<T>::slope(number<T>(2.0 / 3) * x);
  }
};
template <class T>
struct Sigmoid {
  static PROFKIT_INLINE Vec<T> value(Vec<T> x) { return sigmoid<T>(x); }
  static PROFKIT_INLINE Vec<T> slope(Vec<T> x) {
    const Vec<T> y = value(x);
    return y * (number<T>(1) - y);
  }
};
template <class T>
struct HardSigmoid {
  static PROFKIT_INLINE Vec<T> value(Vec<T> x) { return hard_sigmoid<T>(x); }
  static PROFKIT_INLINE Vec<T> slope(Vec<T> x) {
    const Vec<T> magnitude = -minus_magnitude<T>(x);
    return magnitude < number<T>(2.5) ? number<T>(0.2) : Vec<T>{};
  }
};
template <class T>
struct Gelu {
  static PROFKIT_INLINE Vec<T> value(Vec<T> x) { return x; }  // of double the kernel is not asked
  static PROFKIT_INLINE Vec<T> slope(Vec<T> x) { return x; }
};
template <>
struct Gelu<float> {
  static PROFKIT_INLINE Vec<float> share(Vec<float> x) {
    return number<float>(0.5) + number<float>(0.5) * error_function(number<float>(0.70710678118654752) * x);
  }
  static PROFKIT_INLINE Vec<float> value(Vec<float> x) { return x * share(x); }
  static PROFKIT_INLINE Vec<float> slope(Vec<float> x) {
    const Vec<float> power = exponential<float>(number<float>(-0.5) * x * x);
    return share(x) + x * number<float>(0.39894228040143268) * power;
  }
};

template <class T, template <class> class Function>
void activate(const profkit_activation_params& p, const CpuCall& call) {
  const T* x = static_cast<const T*>(call.inputs[0]);
  T* const out[] = {static_cast<T*>(call.output)};
  if (p.direction == PROFKIT_FORWARD) {
    const T* const in[] = {x};
    return map_line<T>(call, p.count, in, out, [](const Vec<T>(&v)[1], Vec<T>(&y)[1]) PROFKIT_INLINED {
      y[0] = Function<T>::value(v[0]);
    });
  }
  const T* const in[] = {x, static_cast<const T*>(call.inputs[1])};
  map_line<T>(call, p.count, in, out, [](const Vec<T>(&v)[2], Vec<T>(&y)[1]) PROFKIT_INLINED {
    y[0] = Function<T>::slope(v[0]) * v[1];
  });
}

template <class T>
struct ActivationVectorized {
  using Params = profkit_activation_params;

  static size_t workspace_bytes(const Params&, int, const CpuBlocking&) { return 0; }

  static void launch(const Params& p, const CpuCall& call) {
    switch (p.function) {
      case PROFKIT_TANH:
        return activate<T, Tanh>(p, call);
      case PROFKIT_SCALED_TANH:
        return activate<T, ScaledTanh>(p, call);
      case PROFKIT_SIGMOID:
        return activate<T, Sigmoid>(p, call);
      case PROFKIT_HARD_SIGMOID:
        return activate<T, HardSigmoid>(p, call);
      case PROFKIT_GELU:
        return activate<T, Gelu>(p, call);
      default:
        return activate<T, Relu>(p, call);
    }
  }
};

extern const CpuEntry<profkit_activation_params> activation_vectorized;
const CpuEntry<profkit_activation_params> activation_vectorized =
    EntryOf<ActivationVectorized, profkit_activation_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
