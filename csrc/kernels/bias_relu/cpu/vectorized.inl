// Bias per channel, then ReLU, with vectors. NCHW: a plane has one bias. NHWC: the whole array is one line
// under which the biases repeat; they are written out until a vector begins with the first one again. A
// thread owns planes, or a piece of the line. Bottleneck: memory.
#pragma once

#include "kernels/bias_relu/params.h"
#include "kernels/cpu/work.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
PROFKIT_INLINE T biased(T x, T bias) {
  const T sum = x + bias;
  return sum < 0 ? 0 : sum;  // NaN propagates
}

template <class T>
PROFKIT_INLINE void bias_line(const T* x, T bias, T* y, int64_t length) {
  constexpr int64_t width = kWidth<T>;
  const Vec<T> biases = broadcast(bias);
  int64_t i = 0;
  for (; i + 4 * width <= length; i += 4 * width) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) store(y + i + v * width, relu<T>(load(x + i + v * width) + biases));
  }
  for (; i + width <= length; i += width) store(y + i, relu<T>(load(x + i) + biases));
  for (; i < length; ++i) y[i] = biased(x[i], bias);
}

template <class T>
void bias_planes(const profkit_bias_relu_params& p, const CpuCall& call, int thread) {
  const T* x = static_cast<const T*>(call.inputs[0]);
  const T* bias = static_cast<const T*>(call.inputs[1]);
  T* y = static_cast<T*>(call.output);
  const int64_t pixels = p.height * p.width;
  const Part part = part_of(p.batch * p.channels, 1, call.threads, thread);
  for (int64_t plane = part.begin, c = part.begin % p.channels; plane < part.end; ++plane) {
    bias_line(x + plane * pixels, bias[c], y + plane * pixels, pixels);
    if (++c == p.channels) c = 0;
  }
}

// Elements after which a vector begins with the first channel again.
template <class T>
PROFKIT_INLINE int64_t bias_period(const profkit_bias_relu_params& p) {
  int64_t period = p.channels;
  while (period % kWidth<T> != 0) period *= 2;  // the width is a power of two
  return period;
}

template <class T>
void bias_pixels(const profkit_bias_relu_params& p, const CpuCall& call, int thread, const T* biases) {
  constexpr int64_t width = kWidth<T>;
  const T* x = static_cast<const T*>(call.inputs[0]);
  T* y = static_cast<T*>(call.output);
  const int64_t length = p.batch * p.height * p.width * p.channels, period = bias_period<T>(p);
  const Part part = part_of(length, width, call.threads, thread);
  for (int64_t i = part.begin; i < part.end;) {
    const int64_t start = i % period, stop = smaller(part.end, i - start + period);
    const T* under = biases + start - i;
    for (; i + 4 * width <= stop; i += 4 * width) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        store(y + i + v * width, relu<T>(load(x + i + v * width) + load(under + i + v * width)));
      }
    }
    for (; i + width <= stop; i += width) store(y + i, relu<T>(load(x + i) + load(under + i)));
    for (; i < stop; ++i) y[i] = biased(x[i], under[i]);
  }
}

template <class T>
struct BiasReluVectorized {
  static size_t workspace_bytes(const profkit_bias_relu_params& p, int, const CpuBlocking&) {
    Arena counter(nullptr);
    if (p.layout == PROFKIT_NHWC) counter.take<T>(bias_period<T>(p));
    return counter.used_bytes();
  }

  static void launch(const profkit_bias_relu_params& p, const CpuCall& call) {
    T* biases = static_cast<T*>(call.workspace);
    if (p.layout == PROFKIT_NHWC) {
      const T* bias = static_cast<const T*>(call.inputs[1]);
      const int64_t period = bias_period<T>(p);
      for (int64_t i = 0; i < period; i += p.channels) {
        for (int64_t c = 0; c < p.channels; ++c) biases[i + c] = bias[c];
      }
    }
    on_threads(call.threads, [&](int thread) {
      p.layout == PROFKIT_NCHW ? bias_planes<T>(p, call, thread) : bias_pixels<T>(p, call, thread, biases);
    });
  }
};

extern const CpuEntry<profkit_bias_relu_params> bias_relu_vectorized;
const CpuEntry<profkit_bias_relu_params> bias_relu_vectorized =
    EntryOf<BiasReluVectorized, profkit_bias_relu_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
