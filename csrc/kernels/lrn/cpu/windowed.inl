// Local response normalisation for the powers 1/2, 3/4 and 1, which are square roots, and its gradient.
// Squares of all channels lie in a small buffer with zeros before and after them, so that every window is
// `size` loads and additions. NCHW: vectors of neighbouring pixels, all channels of one vector in the buffer.
// NHWC: vectors of channels, one pixel in the buffer. A thread owns pixels. Bottleneck: loads of the first
// cache, then the division.
#pragma once

#include "kernels/cpu/roots.inl"
#include "kernels/cpu/work.inl"
#include "kernels/lrn/params.h"

namespace profkit {
namespace PROFKIT_ISA {

enum class Power { half, three_quarters, one };

inline Power power_of(double beta) {
  if (beta == 0.5) return Power::half;
  return beta == 0.75 ? Power::three_quarters : Power::one;
}

template <class T, Power P>
PROFKIT_INLINE Vec<T> raised(Vec<T> base) {
  if (P == Power::one) return base;
  const Vec<T> half = roots<T>(base);
  return P == Power::half ? half : half * roots<T>(half);
}

template <class T>
struct Constants {
  T k, scale;
  explicit Constants(const profkit_lrn_params& p)
      : k(static_cast<T>(p.k)), scale(static_cast<T>(p.alpha / static_cast<double>(p.size))) {}
};

// One vector of the result; `squares` points at the first square of its window, neighbours are `step` apart.
template <class T, Power P>
PROFKIT_INLINE Vec<T> normalised(Vec<T> x, const T* squares, int64_t step, int64_t size,
                                 Constants<T> constants) {
  Vec<T> energy = load(squares);
  for (int64_t i = 1; i < size; ++i) energy += load(squares + i * step);
  return x / raised<T, P>(broadcast(constants.k) + broadcast(constants.scale) * energy);
}

// The buffer holds a vector per channel: size - 1 more than there are channels, those before and after being
// 0.
template <class T, Power P>
void norm_planes(const profkit_lrn_params& p, const CpuCall& call, int thread, T* squares) {
  constexpr int width = kWidth<T>;
  const int64_t pixels = p.height * p.width, tiles = ceil_div(pixels, width), before = p.size / 2;
  const Constants<T> constants(p);
  const Part part = part_of(p.batch * tiles, 1, call.threads, thread);
  for (int64_t tile = part.begin; tile < part.end; ++tile) {
    const int64_t image = tile / tiles, first = tile % tiles * width;
    const int64_t count = smaller(width, pixels - first);
    const T* x = static_cast<const T*>(call.inputs[0]) + image * p.channels * pixels + first;
    T* y = static_cast<T*>(call.output) + image * p.channels * pixels + first;
    if (count == width) {
      for (int64_t c = 0; c < p.channels; ++c) {
        const Vec<T> values = load(x + c * pixels);
        store(squares + (before + c) * width, values * values);
      }
      for (int64_t c = 0; c < p.channels; ++c) {
        store(y + c * pixels,
              normalised<T, P>(load(x + c * pixels), squares + c * width, width, p.size, constants));
      }
      continue;
    }
    for (int64_t c = 0; c < p.channels; ++c) {
      for (int64_t i = 0; i < count; ++i)
        squares[(before + c) * width + i] = x[c * pixels + i] * x[c * pixels + i];
    }
    for (int64_t c = 0; c < p.channels; ++c) {
      Vec<T> values = {};
      for (int64_t i = 0; i < count; ++i) values[i] = x[c * pixels + i];
      const Vec<T> result = normalised<T, P>(values, squares + c * width, width, p.size, constants);
      for (int64_t i = 0; i < count; ++i) y[c * pixels + i] = result[i];
    }
  }
}

// The buffer holds one pixel's channels, with room for a vector more at its end.
template <class T, Power P>
void norm_pixels(const profkit_lrn_params& p, const CpuCall& call, int thread, T* squares) {
  constexpr int width = kWidth<T>;
  const Constants<T> constants(p);
  const int64_t before = p.size / 2;
  const Part part = part_of(p.batch * p.height * p.width, 1, call.threads, thread);
  for (int64_t pixel = part.begin; pixel < part.end; ++pixel) {
    const T* x = static_cast<const T*>(call.inputs[0]) + pixel * p.channels;
    T* y = static_cast<T*>(call.output) + pixel * p.channels;
    for (int64_t c = 0; c < p.channels; ++c) squares[before + c] = x[c] * x[c];
    for (int64_t c = 0; c < p.channels; c += width) {
      const int64_t count = smaller(width, p.channels - c);
      Vec<T> values = {};
      if (count == width) {
        values = load(x + c);
      } else {
        for (int64_t i = 0; i < count; ++i) values[i] = x[c + i];
      }
      const Vec<T> result = normalised<T, P>(values, squares + c, 1, p.size, constants);
      if (count == width) {
        store(y + c, result);
      } else {
        for (int64_t i = 0; i < count; ++i) y[c + i] = result[i];
      }
    }
  }
}

// dx = dy p - 2 alpha/size beta x * sum over those who see the channel of dy x p / s, p being s^-beta. Sums
// of squares give s of a channel, whose slot in the first buffer then holds p; the second one holds dy x p /
// s.
template <class T>
struct Gradient {
  T *squares, *seen;
  int64_t before, after, size;
  Constants<T> constants;
  T slope;

  Gradient(const profkit_lrn_params& p, T* buffers, int64_t length)
      : squares(buffers),
        seen(buffers + length),
        before(p.size / 2),
        after((p.size - 1) / 2),
        size(p.size),
        constants(p),
        slope(static_cast<T>(2 * p.alpha / static_cast<double>(p.size) * p.beta)) {}

  // Of the vector at `slot` of the buffers, whose neighbours are `step` elements apart.
  template <Power P>
  PROFKIT_INLINE void weigh(Vec<T> x, Vec<T> dy, int64_t slot, int64_t step) const {
    Vec<T> energy = load(squares + slot);
    for (int64_t i = 1; i < size; ++i) energy += load(squares + slot + i * step);
    const Vec<T> base = broadcast(constants.k) + broadcast(constants.scale) * energy;
    const Vec<T> power = broadcast(static_cast<T>(1)) / raised<T, P>(base);
    store(squares + slot, power);
    store(seen + slot + after * step, dy * x * power / base);
  }
  PROFKIT_INLINE Vec<T> result(Vec<T> x, Vec<T> dy, int64_t slot, int64_t step) const {
    Vec<T> sum = load(seen + slot);
    for (int64_t i = 1; i < size; ++i) sum += load(seen + slot + i * step);
    return dy * load(squares + slot) - broadcast(slope) * x * sum;
  }
};

template <class T>
PROFKIT_INLINE Vec<T> load_some(const T* from, int64_t count) {
  return count >= kWidth<T> ? load(from) : load_first(from, count);
}
template <class T>
PROFKIT_INLINE void store_some(T* to, Vec<T> v, int64_t count) {
  count >= kWidth<T> ? store(to, v) : store_first(to, v, count);
}

template <class T, Power P>
void gradient_planes(const profkit_lrn_params& p, const CpuCall& call, int thread, const Gradient<T>& of) {
  constexpr int width = kWidth<T>;
  const int64_t pixels = p.height * p.width, tiles = ceil_div(pixels, width);
  const Part part = part_of(p.batch * tiles, 1, call.threads, thread);
  for (int64_t tile = part.begin; tile < part.end; ++tile) {
    const int64_t first = tile % tiles * width, count = smaller(width, pixels - first);
    const int64_t at = tile / tiles * p.channels * pixels + first;
    const T* x = static_cast<const T*>(call.inputs[0]) + at;
    const T* dy = static_cast<const T*>(call.inputs[1]) + at;
    T* dx = static_cast<T*>(call.output) + at;
    for (int64_t c = 0; c < p.channels; ++c) {
      const Vec<T> values = load_some(x + c * pixels, count);
      store(of.squares + (of.before + c) * width, values * values);
    }
    for (int64_t c = 0; c < p.channels; ++c) {
      of.template weigh<P>(load_some(x + c * pixels, count), load_some(dy + c * pixels, count), c * width,
                           width);
    }
    for (int64_t c = 0; c < p.channels; ++c) {
      store_some(
          dx + c * pixels,
          of.result(load_some(x + c * pixels, count), load_some(dy + c * pixels, count), c * width, width),
          count);
    }
    // The next tile finds zeros before its first channel again.
    for (int64_t c = 0; c < of.before; ++c) store(of.squares + c * width, Vec<T>{});
  }
}

template <class T, Power P>
void gradient_pixels(const profkit_lrn_params& p, const CpuCall& call, int thread, const Gradient<T>& of) {
  constexpr int width = kWidth<T>;
  const Part part = part_of(p.batch * p.height * p.width, 1, call.threads, thread);
  for (int64_t pixel = part.begin; pixel < part.end; ++pixel) {
    const T* x = static_cast<const T*>(call.inputs[0]) + pixel * p.channels;
    const T* dy = static_cast<const T*>(call.inputs[1]) + pixel * p.channels;
    T* dx = static_cast<T*>(call.output) + pixel * p.channels;
    for (int64_t c = 0; c < p.channels; ++c) of.squares[of.before + c] = x[c] * x[c];
    for (int64_t c = 0; c < p.channels; c += width) {
      // Beyond the last channel dy is 0, and so is what is stored.
      of.template weigh<P>(load_some(x + c, p.channels - c), load_some(dy + c, p.channels - c), c, 1);
    }
    for (int64_t c = 0; c < p.channels; c += width) {
      const int64_t count = p.channels - c;
      store_some(dx + c, of.result(load_some(x + c, count), load_some(dy + c, count), c, 1), count);
    }
    for (int64_t i = 0; i < of.before; ++i) of.squares[i] = 0;
    for (int64_t i = of.before + p.channels; i < round_up(p.channels, width); ++i) of.squares[i] = 0;
  }
}

// Elements of a thread's buffer of squares.
template <class T>
PROFKIT_INLINE int64_t squares_length(const profkit_lrn_params& p) {
  const int64_t channels = p.channels + p.size - 1;
  return p.layout == PROFKIT_NCHW ? channels * kWidth<T> : round_up(channels + kWidth<T>, kWidth<T>);
}
template <class T>
PROFKIT_INLINE int64_t buffers_length(const profkit_lrn_params& p) {
  return squares_length<T>(p) * (p.direction == PROFKIT_FORWARD ? 1 : 2);
}

template <class T, Power P>
void norm_run(const profkit_lrn_params& p, const CpuCall& call) {
  const int64_t length = buffers_length<T>(p);
  on_threads(call.threads, [&](int thread) {
    T* squares = static_cast<T*>(call.workspace) + thread * length;
    for (int64_t i = 0; i < length; ++i) squares[i] = 0;
    if (p.direction != PROFKIT_FORWARD) {
      const Gradient<T> gradient(p, squares, squares_length<T>(p));
      p.layout == PROFKIT_NCHW ? gradient_planes<T, P>(p, call, thread, gradient)
                               : gradient_pixels<T, P>(p, call, thread, gradient);
      return;
    }
    p.layout == PROFKIT_NCHW ? norm_planes<T, P>(p, call, thread, squares)
                             : norm_pixels<T, P>(p, call, thread, squares);
  });
}

template <class T>
struct LrnWindowed {
  static size_t workspace_bytes(const profkit_lrn_params& p, int threads, const CpuBlocking&) {
    const int64_t bytes = buffers_length<T>(p) * static_cast<int64_t>(sizeof(T));
    return static_cast<size_t>(bytes) * static_cast<size_t>(threads);
  }

  static void launch(const profkit_lrn_params& p, const CpuCall& call) {
    switch (power_of(p.beta)) {
      case Power::half:
        return norm_run<T, Power::half>(p, call);
      case Power::three_quarters:
        return norm_run<T, Power::three_quarters>(p, call);
      case Power::one:
        return norm_run<T, Power::one>(p, call);
    }
  }
};

extern const CpuEntry<profkit_lrn_params> lrn_windowed;
const CpuEntry<profkit_lrn_params> lrn_windowed = EntryOf<LrnWindowed, profkit_lrn_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
