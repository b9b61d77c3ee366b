// Bias per channel, then ReLU, and its gradients, with vectors. NCHW: a plane has one bias. NHWC: the whole
// array is one line under which the biases repeat; they are written out until a vector begins with the first
// one again. A thread owns planes, or a piece of the line. Bottleneck: memory.
#pragma once

#include "kernels/bias_relu/params.h"
#include "kernels/cpu/moments.inl"

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
PROFKIT_INLINE Vec<T> where_above_0(Vec<T> y, Vec<T> dy) {
  return y > Vec<T>{} ? dy : Vec<T>{};
}

// Sums of a thread's planes or pixels by channel: joined by who calls.
PROFKIT_INLINE int64_t sums_pitch(const profkit_bias_relu_params& p) { return round_up(p.channels, 64); }

// Planes as they lie in memory: a channel's are on many pages.
template <class T>
void bias_sums_planes(const profkit_bias_relu_params& p, const CpuCall& call, int thread, T* sums) {
  const int64_t pixels = p.height * p.width, whole = pixels / kWidth<T> * kWidth<T>;
  const Part own = part_of(p.batch * p.channels, 1, call.threads, thread);
  memset(sums, 0, static_cast<size_t>(p.channels) * sizeof(T));
  for (int64_t plane = own.begin; plane < own.end; ++plane) {
    const T* y = static_cast<const T*>(call.inputs[0]) + plane * pixels;
    const T* dy = static_cast<const T*>(call.inputs[1]) + plane * pixels;
    double sum[1];
    line_sums<T>(whole, sum, [=](int64_t at, Vec<T>(&to)[1]) PROFKIT_INLINED {
      to[0] += where_above_0<T>(load(y + at), load(dy + at));
    });
    for (int64_t i = whole; i < pixels; ++i) sum[0] += y[i] > 0 ? static_cast<double>(dy[i]) : 0;
    sums[plane % p.channels] += static_cast<T>(sum[0]);
  }
}

template <class T>
void bias_sums_pixels(const profkit_bias_relu_params& p, const CpuCall& call, int thread, T* sums) {
  const T* y = static_cast<const T*>(call.inputs[0]);
  const T* dy = static_cast<const T*>(call.inputs[1]);
  const Part own = part_of(p.batch * p.height * p.width, 1, call.threads, thread);
  memset(sums, 0, static_cast<size_t>(p.channels) * sizeof(T));
  for (int64_t pixel = own.begin; pixel < own.end; ++pixel) {
    const T* const in[] = {y + pixel * p.channels, dy + pixel * p.channels, sums};
    T* const out[] = {sums};
    map_block<T>(in, out, p.channels, [](const Vec<T>(&v)[3], Vec<T>(&to)[1]) PROFKIT_INLINED {
      to[0] = v[2] + where_above_0<T>(v[0], v[1]);
    });
  }
}

template <class T>
struct BiasReluVectorized {
  static size_t workspace_bytes(const profkit_bias_relu_params& p, int threads, const CpuBlocking&) {
    Arena counter(nullptr);
    if (p.layout == PROFKIT_NHWC && p.direction == PROFKIT_FORWARD) counter.take<T>(bias_period<T>(p));
    if (p.direction == PROFKIT_WEIGHT_GRADIENT) counter.take<T>(sums_pitch(p), threads);
    return counter.used_bytes();
  }

  static void by_input(const profkit_bias_relu_params& p, const CpuCall& call) {
    const T* const in[] = {static_cast<const T*>(call.inputs[0]), static_cast<const T*>(call.inputs[1])};
    T* const out[] = {static_cast<T*>(call.output)};
    map_line<T>(call, p.batch * p.channels * p.height * p.width, in, out,
                [](const Vec<T>(&v)[2], Vec<T>(&y)[1])
                    PROFKIT_INLINED { y[0] = where_above_0<T>(v[0], v[1]); });
  }

  static void by_bias(const profkit_bias_relu_params& p, const CpuCall& call) {
    T* sums = static_cast<T*>(call.workspace);
    on_threads(call.threads, [&](int thread) {
      T* own = sums + thread * sums_pitch(p);
      p.layout == PROFKIT_NCHW ? bias_sums_planes<T>(p, call, thread, own)
                               : bias_sums_pixels<T>(p, call, thread, own);
    });
    for (int64_t c = 0; c < p.channels; ++c) {
      T sum = 0;
      for (int thread = 0; thread < call.threads; ++thread) sum += sums[thread * sums_pitch(p) + c];
      static_cast<T*>(call.output)[c] = sum;
    }
  }

  static void launch(const profkit_bias_relu_params& p, const CpuCall& call) {
    if (p.direction == PROFKIT_INPUT_GRADIENT) return by_input(p, call);
    if (p.direction == PROFKIT_WEIGHT_GRADIENT) return by_bias(p, call);
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
