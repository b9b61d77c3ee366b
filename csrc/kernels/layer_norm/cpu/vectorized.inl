// Layer normalisation and its gradients with vectors: rows are read from memory once, some at a time so that
// their sums do not wait for each other, and stay in the first cache. A thread owns rows; of the gradient of
// the parameters it sums up its rows, and the threads' sums are added at the end. Bottleneck: memory.
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
    if (p.direction == PROFKIT_WEIGHT_GRADIENT) counter.take<T>(sums_length(p), threads);
    return counter.used_bytes();
  }

  static const T* input(const CpuCall& call, int index) { return static_cast<const T*>(call.inputs[index]); }

  static void launch(const Params& p, const CpuCall& call) {
    const int64_t arrays = p.direction == PROFKIT_INPUT_GRADIENT ? 3 : 2;
    const bool streams = passes_caches(call, arrays * p.rows * p.width * static_cast<int64_t>(sizeof(T)));
    on_threads(call.threads, [&](int thread) {
      const Part rows = part_of(p.rows, 1, call.threads, thread);
      if (p.direction == PROFKIT_FORWARD) {
        by_rows<4>(
            p, call, rows, 1, [&](int64_t row) { forward<4>(p, call, row, streams); },
            [&](int64_t row) { forward<1>(p, call, row, streams); });
      } else if (p.direction == PROFKIT_INPUT_GRADIENT) {
        by_rows<2>(
            p, call, rows, 2, [&](int64_t row) { by_input<2>(p, call, row, streams); },
            [&](int64_t row) { by_input<1>(p, call, row, streams); });
      } else {
        T* own = static_cast<T*>(call.workspace) + thread * sums_length(p);
        memset(own, 0, static_cast<size_t>(sums_length(p)) * sizeof(T));
        by_rows<4>(
            p, call, rows, 2, [&](int64_t row) { by_parameters<4>(p, call, row, own); },
            [&](int64_t row) { by_parameters<1>(p, call, row, own); });
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

  static PROFKIT_INLINE double inverse_of(const Params& p, const LineSums& sums) {
    return 1 / __builtin_sqrt(sums.squares / sums.count + p.epsilon);
  }

  // Rows at a time, as long as what is read of them stays in the first cache.
  template <int Rows, class Several, class One>
  static PROFKIT_INLINE void by_rows(const Params& p, const CpuCall& call, Part rows, int64_t arrays,
                                     const Several& several, const One& one) {
    const int64_t bytes = Rows * arrays * p.width * static_cast<int64_t>(sizeof(T));
    int64_t row = rows.begin;
    if (bytes <= call.blocking.l1d_bytes) {
      for (; row + Rows <= rows.end; row += Rows) several(row);
    }
    for (; row < rows.end; ++row) one(row);
  }

  template <int Rows>
  static void forward(const Params& p, const CpuCall& call, int64_t row, bool streams) {
    const T* x = input(call, 0) + row * p.width;
    LineSums sums[Rows];
    sums_of_lines<T, false>(x, p.width, no_second_array<T>, sums);
    const T* in[Rows + 2];
    T* out[Rows];
    Vec<T> mean[Rows], inverse[Rows], lost[Rows];
#pragma GCC unroll 4
    for (int k = 0; k < Rows; ++k) {
      const double factor = inverse_of(p, sums[k]);
      const T rounded = static_cast<T>(sums[k].mean);
      mean[k] = broadcast(rounded);
      inverse[k] = broadcast(static_cast<T>(factor));
      // What the mean lost when it was rounded.
      lost[k] = broadcast(static_cast<T>((static_cast<double>(rounded) - sums[k].mean) * factor));
      in[k] = x + k * p.width;
      out[k] = static_cast<T*>(call.output) + (row + k) * p.width;
    }
    in[Rows] = input(call, 1);
    in[Rows + 1] = input(call, 2);
    map_piece<T>(in, out, {0, p.width}, streams,
                 [=](const Vec<T>(&v)[Rows + 2], Vec<T>(&y)[Rows]) PROFKIT_INLINED {
#pragma GCC unroll 4
                   for (int k = 0; k < Rows; ++k) {
                     y[k] = ((v[k] - mean[k]) * inverse[k] + lost[k]) * v[Rows] + v[Rows + 1];
                   }
                 });
  }

  template <int Rows>
  static void by_input(const Params& p, const CpuCall& call, int64_t row, bool streams) {
    const T *x = input(call, 0) + row * p.width, *scale = input(call, 1),
            *dy = input(call, 2) + row * p.width;
    const int64_t width = p.width;
    LineSums sums[Rows];
    sums_of_lines<T, true>(
        x, width,
        [=](int line, int64_t at, int64_t some)
            PROFKIT_INLINED { return load_some(dy + line * width + at, some) * load_some(scale + at, some); },
        sums);
    const T* in[2 * Rows + 1];
    T* out[Rows];
    Vec<T> mean[Rows], inverse[Rows], shift[Rows], slope[Rows];
#pragma GCC unroll 4
    for (int k = 0; k < Rows; ++k) {
      const double own = inverse_of(p, sums[k]);
      mean[k] = broadcast(static_cast<T>(sums[k].mean));
      inverse[k] = broadcast(static_cast<T>(own));
      shift[k] = broadcast(static_cast<T>(sums[k].dy / sums[k].count));
      slope[k] = broadcast(static_cast<T>(own * own * own * sums[k].along / sums[k].count));
      in[2 * k] = x + k * width;
      in[2 * k + 1] = dy + k * width;
      out[k] = static_cast<T*>(call.output) + (row + k) * width;
    }
    in[2 * Rows] = scale;
    map_piece<T>(
        in, out, {0, width}, streams, [=](const Vec<T>(&v)[2 * Rows + 1], Vec<T>(&y)[Rows]) PROFKIT_INLINED {
#pragma GCC unroll 4
          for (int k = 0; k < Rows; ++k) {
            y[k] = (v[2 * k + 1] * v[2 * Rows] - shift[k]) * inverse[k] - (v[2 * k] - mean[k]) * slope[k];
          }
        });
  }

  // The sums are read and written once for all rows.
  template <int Rows>
  static void by_parameters(const Params& p, const CpuCall& call, int64_t row, T* sums) {
    const T *x = input(call, 0) + row * p.width, *dy = input(call, 1) + row * p.width;
    LineSums moments[Rows];
    sums_of_lines<T, false>(x, p.width, no_second_array<T>, moments);
    const T* in[2 * Rows + 2];
    Vec<T> mean[Rows], inverse[Rows];
#pragma GCC unroll 4
    for (int k = 0; k < Rows; ++k) {
      mean[k] = broadcast(static_cast<T>(moments[k].mean));
      inverse[k] = broadcast(static_cast<T>(inverse_of(p, moments[k])));
      in[2 * k] = x + k * p.width;
      in[2 * k + 1] = dy + k * p.width;
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
};

extern const CpuEntry<profkit_layer_norm_params> layer_norm_vectorized;
const CpuEntry<profkit_layer_norm_params> layer_norm_vectorized =
    EntryOf<LayerNormVectorized, profkit_layer_norm_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
