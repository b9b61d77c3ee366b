// Layer normalisation and its gradients with vectors: a row is read from memory once and stays in the first
// cache. A thread owns rows; of the gradient of the parameters it sums up its rows, and the threads' sums are
// added at the end. Bottleneck: memory.
#pragma once

#include "kernels/cpu/moments.inl"
#include "kernels/layer_norm/params.h"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct LayerNormVectorized {
  using Params = profkit_layer_norm_params;

  static int64_t sums_length(const Params& p) { return round_up(2 * p.width, 64); }

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking&) {
    Arena counter(nullptr);
    // Scaled dy of a row, or the sums of a thread.
    if (p.direction != PROFKIT_FORWARD) counter.take<T>(sums_length(p), threads);
    return counter.used_bytes();
  }

  static const T* input(const CpuCall& call, int index) { return static_cast<const T*>(call.inputs[index]); }

  static void launch(const Params& p, const CpuCall& call) {
    const int64_t arrays = p.direction == PROFKIT_INPUT_GRADIENT ? 3 : 2;
    const bool streams = passes_caches(call, arrays * p.rows * p.width * static_cast<int64_t>(sizeof(T)));
    on_threads(call.threads, [&](int thread) {
      T* own = static_cast<T*>(call.workspace) + thread * sums_length(p);
      const Part rows = part_of(p.rows, 1, call.threads, thread);
      if (p.direction == PROFKIT_FORWARD) {
        forward(p, call, rows, streams);
      } else if (p.direction == PROFKIT_INPUT_GRADIENT) {
        by_input(p, call, rows, own, streams);
      } else {
        by_parameters(p, call, rows, own);
      }
      finish_streaming();
    });
    if (p.direction != PROFKIT_WEIGHT_GRADIENT) return;
    T* output = static_cast<T*>(call.output);
    const T* sums = static_cast<const T*>(call.workspace);
    for (int64_t i = 0; i < 2 * p.width; ++i) {
      T sum = 0;
      for (int thread = 0; thread < call.threads; ++thread) sum += sums[thread * sums_length(p) + i];
      output[i] = sum;
    }
  }

  static PROFKIT_INLINE T inverse_of(const Params& p, const LineSums& sums) {
    return static_cast<T>(1 / __builtin_sqrt(sums.squares / sums.count + p.epsilon));
  }

  static void forward(const Params& p, const CpuCall& call, Part rows, bool streams) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const T* x = input(call, 0) + row * p.width;
      const LineSums sums = sums_of_line<T, false>(x, nullptr, p.width);
      const T rounded = static_cast<T>(sums.mean);
      const Vec<T> mean = broadcast(rounded), inverse = broadcast(inverse_of(p, sums));
      // What the mean lost when it was rounded.
      const Vec<T> lost = broadcast(static_cast<T>(static_cast<double>(rounded) - sums.mean)) * inverse;
      const T* const in[] = {x, input(call, 1), input(call, 2)};
      T* const out[] = {static_cast<T*>(call.output) + row * p.width};
      map_piece<T>(in, out, {0, p.width}, streams, [=](const Vec<T>(&v)[3], Vec<T>(&y)[1]) PROFKIT_INLINED {
        y[0] = ((v[0] - mean) * inverse + lost) * v[1] + v[2];
      });
    }
  }

  static void by_input(const Params& p, const CpuCall& call, Part rows, T* scaled, bool streams) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const T *x = input(call, 0) + row * p.width, *dy = input(call, 2) + row * p.width;
      const T* const pair[] = {dy, input(call, 1)};
      T* const into[] = {scaled};
      map_block<T>(pair, into, p.width,
                   [](const Vec<T>(&v)[2], Vec<T>(&y)[1]) PROFKIT_INLINED { y[0] = v[0] * v[1]; });
      const LineSums sums = sums_of_line<T, true>(x, scaled, p.width);
      const double own = static_cast<double>(inverse_of(p, sums));
      const Vec<T> mean = broadcast(static_cast<T>(sums.mean)), inverse = broadcast(static_cast<T>(own)),
                   shift = broadcast(static_cast<T>(sums.dy / sums.count)),
                   slope = broadcast(static_cast<T>(own * own * own * sums.along / sums.count));
      const T* const in[] = {x, scaled};
      T* const out[] = {static_cast<T*>(call.output) + row * p.width};
      map_piece<T>(in, out, {0, p.width}, streams, [=](const Vec<T>(&v)[2], Vec<T>(&y)[1]) PROFKIT_INLINED {
        y[0] = (v[1] - shift) * inverse - (v[0] - mean) * slope;
      });
    }
  }

  // Rows at a time: the sums are read and written once for all of them.
  template <int Rows>
  static PROFKIT_INLINE void add_rows(const Params& p, const CpuCall& call, int64_t row, T* sums) {
    const T* in[2 * Rows + 2];
    Vec<T> mean[Rows], inverse[Rows];
#pragma GCC unroll 4
    for (int k = 0; k < Rows; ++k) {
      const T* x = input(call, 0) + (row + k) * p.width;
      const LineSums moments = sums_of_line<T, false>(x, nullptr, p.width);
      mean[k] = broadcast(static_cast<T>(moments.mean));
      inverse[k] = broadcast(inverse_of(p, moments));
      in[2 * k] = x;
      in[2 * k + 1] = input(call, 1) + (row + k) * p.width;
    }
    in[2 * Rows] = sums;
    in[2 * Rows + 1] = sums + p.width;
    T* const out[] = {sums, sums + p.width};
    map_block<T>(in, out, p.width, [=](const Vec<T>(&v)[2 * Rows + 2], Vec<T>(&y)[2]) PROFKIT_INLINED {
      y[0] = v[2 * Rows];
      y[1] = v[2 * Rows + 1];
#pragma GCC unroll 4
      for (int k = 0; k < Rows; ++k) {
        y[0] += v[2 * k + 1] * ((v[2 * k] - mean[k]) * inverse[k]);
        y[1] += v[2 * k + 1];
      }
    });
  }

  static void by_parameters(const Params& p, const CpuCall& call, Part rows, T* sums) {
    memset(sums, 0, static_cast<size_t>(sums_length(p)) * sizeof(T));
    int64_t row = rows.begin;
    for (; row + 4 <= rows.end; row += 4) add_rows<4>(p, call, row, sums);
    for (; row < rows.end; ++row) add_rows<1>(p, call, row, sums);
  }
};

extern const CpuEntry<profkit_layer_norm_params> layer_norm_vectorized;
const CpuEntry<profkit_layer_norm_params> layer_norm_vectorized =
    EntryOf<LayerNormVectorized, profkit_layer_norm_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
