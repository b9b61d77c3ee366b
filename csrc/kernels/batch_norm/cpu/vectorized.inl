// Batch normalisation and its gradients with vectors. Both passes, for the sums and for the result, go over
// the images as they lie in memory: a channel's planes are on many pages. The second pass goes backward, so
// that it finds the end of the first one in the last cache. NCHW: a thread owns planes, and sums up every
// channel's. NHWC, and images of one pixel: it owns rows of channels, summed up by column. What the threads
// have is joined in between. Bottleneck: memory.
#pragma once

#include "kernels/batch_norm/params.h"
#include "kernels/cpu/moments.inl"

namespace profkit {
namespace PROFKIT_ISA {

PROFKIT_INLINE double inverse_deviation(double variance, double epsilon) {
  return 1 / __builtin_sqrt(variance + epsilon);
}

template <class T>
struct BatchNormVectorized {
  using Params = profkit_batch_norm_params;

  // Rows of a block whose columns are summed up together: it stays in the first or second cache.
  static constexpr int64_t kRowsAtOnce = 32;

  // What every element of a channel becomes: forward (x - mean) factor + shift, or of the gradient
  // (dy - shift) factor - (x - mean) slope.
  struct Channel {
    T mean, factor, shift, slope;
  };
  // The sums of a column: of x around `mean`, a number near the column's own mean.
  enum Column { kMean, kOff, kSquares, kDy, kAlong, kColumns };

  static bool by_rows(const Params& p) { return p.layout == PROFKIT_NHWC || p.height * p.width == 1; }
  static bool has_sums(const Params& p) { return p.mode == PROFKIT_TRAINING; }
  static int64_t padded(const Params& p) { return round_up(p.channels, 64); }

  struct Plan {
    T* results;        // [4][channels]: Channel's fields
    T* columns;        // [threads][kColumns][channels], of rows
    LineSums* planes;  // [threads][channels], of planes
    size_t bytes;
    Plan(const Params& p, int threads, void* workspace) {
      Arena arena(workspace);
      results = arena.take<T>(padded(p), 4);
      columns = by_rows(p) && has_sums(p) ? arena.take<T>(padded(p) * kColumns, threads) : nullptr;
      planes = !by_rows(p) && has_sums(p) ? arena.take<LineSums>(p.channels, threads) : nullptr;
      bytes = arena.used_bytes();
    }
  };

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking&) {
    return Plan(p, threads, nullptr).bytes;
  }

  static const T* input(const CpuCall& call, int index) { return static_cast<const T*>(call.inputs[index]); }
  static const T* dy_of(const Params& p, const CpuCall& call) {
    if (p.direction == PROFKIT_FORWARD) return nullptr;
    return input(call, p.direction == PROFKIT_INPUT_GRADIENT ? 2 : 1);
  }

  // Planes, or rows.
  static int64_t line_count(const Params& p) {
    return by_rows(p) ? p.batch * p.height * p.width : p.batch * p.channels;
  }

  static void launch(const Params& p, const CpuCall& call) {
    const Plan plan(p, call.threads, call.workspace);
    const int64_t lines = line_count(p), threads = smaller(call.threads, lines), pitch = padded(p);
    if (has_sums(p)) {
      on_threads(static_cast<int>(threads), [&](int thread) {
        const Part own = part_of(lines, 1, threads, thread);
        by_rows(p) ? sum_own_rows(p, call, plan, own, thread) : sum_own_planes(p, call, plan, own, thread);
      });
    }
    for (int64_t c = 0; c < p.channels; ++c) {
      LineSums sums;
      for (int64_t thread = 0; has_sums(p) && thread < threads; ++thread) {
        const LineSums found =
            by_rows(p) ? column_sums(p, plan, thread, part_of(lines, 1, threads, thread).size(), c)
                       : plan.planes[thread * p.channels + c];
        if (found.count > 0) sums.join(found);
      }
      const Channel channel = channel_of(p, call, c, sums);
      plan.results[c] = channel.mean;
      plan.results[pitch + c] = channel.factor;
      plan.results[2 * pitch + c] = channel.shift;
      plan.results[3 * pitch + c] = channel.slope;
    }
    if (p.direction == PROFKIT_WEIGHT_GRADIENT) return;
    const int64_t arrays = p.direction == PROFKIT_INPUT_GRADIENT ? 3 : 2;
    const bool streams = passes_caches(
        call, arrays * p.batch * p.channels * p.height * p.width * static_cast<int64_t>(sizeof(T)));
    on_threads(static_cast<int>(threads), [&](int thread) {
      const Part own = part_of(lines, 1, threads, thread);
      for (int64_t end = own.end; end > own.begin;) {
        const int64_t begin = larger(own.begin, end - (by_rows(p) ? kRowsAtOnce : 1));
        by_rows(p) ? fill_rows(p, call, plan, {begin, end}, streams)
                   : fill_plane(p, call, plan, begin, streams);
        end = begin;
      }
      finish_streaming();
    });
  }

  // From the sums of a channel (or, in inference, from what is given) to what its elements become.
  static Channel channel_of(const Params& p, const CpuCall& call, int64_t c, const LineSums& sums) {
    const double variance =
        p.mode == PROFKIT_INFERENCE ? static_cast<double>(input(call, 4)[c]) : sums.squares / sums.count;
    const double mean = p.mode == PROFKIT_INFERENCE ? static_cast<double>(input(call, 3)[c]) : sums.mean;
    const double inverse = inverse_deviation(variance, p.epsilon);
    if (p.direction == PROFKIT_WEIGHT_GRADIENT) {
      T* output = static_cast<T*>(call.output);
      output[c] = static_cast<T>(sums.along * inverse);
      output[p.channels + c] = static_cast<T>(sums.dy);
      return {};
    }
    const double factor = static_cast<double>(input(call, 1)[c]) * inverse;
    if (p.direction == PROFKIT_FORWARD) {
      // What the mean loses when it is rounded is in the shift.
      const double moved = static_cast<double>(static_cast<T>(mean)) - mean;
      const double shift = static_cast<double>(input(call, 2)[c]) + moved * factor;
      return {static_cast<T>(mean), static_cast<T>(factor), static_cast<T>(shift), 0};
    }
    return {static_cast<T>(mean), static_cast<T>(factor), static_cast<T>(sums.dy / sums.count),
            static_cast<T>(factor * inverse * inverse * sums.along / sums.count)};
  }

  static void sum_own_planes(const Params& p, const CpuCall& call, const Plan& plan, Part own, int thread) {
    const T *x = input(call, 0), *dy = dy_of(p, call);
    const int64_t pixels = p.height * p.width;
    LineSums* sums = plan.planes + thread * p.channels;
    for (int64_t c = 0; c < p.channels; ++c) sums[c] = {};
    for (int64_t plane = own.begin, c = own.begin % p.channels; plane < own.end; ++plane) {
      const int64_t at = plane * pixels;
      sums[c].join(dy ? sums_of_line<T, true>(x + at, dy + at, pixels)
                      : sums_of_line<T, false>(x + at, nullptr, pixels));
      if (++c == p.channels) c = 0;
    }
  }

  static void fill_plane(const Params& p, const CpuCall& call, const Plan& plan, int64_t plane,
                         bool streams) {
    const T *x = input(call, 0), *dy = dy_of(p, call), *results = plan.results + plane % p.channels;
    const int64_t pixels = p.height * p.width, at = plane * pixels, pitch = padded(p);
    const Vec<T> mean = broadcast(results[0]), factor = broadcast(results[pitch]),
                 shift = broadcast(results[2 * pitch]), slope = broadcast(results[3 * pitch]);
    T* const out[] = {static_cast<T*>(call.output) + at};
    if (dy == nullptr) {
      const T* const in[] = {x + at};
      map_piece<T>(in, out, {0, pixels}, streams, [=](const Vec<T>(&v)[1], Vec<T>(&y)[1]) PROFKIT_INLINED {
        y[0] = (v[0] - mean) * factor + shift;
      });
    } else {
      const T* const in[] = {x + at, dy + at};
      map_piece<T>(in, out, {0, pixels}, streams, [=](const Vec<T>(&v)[2], Vec<T>(&y)[1]) PROFKIT_INLINED {
        y[0] = (v[1] - shift) * factor - (v[0] - mean) * slope;
      });
    }
  }

  // A vector of columns of up to kRowsAtOnce rows, joined to what came before.
  template <bool HasDy, class Load>
  static PROFKIT_INLINE void add_columns(T* sums, int64_t pitch, int64_t seen, int64_t rows,
                                         const Load& get) {
    const auto number = [](int64_t n) { return broadcast(static_cast<T>(n)); };
    Vec<T> total[2] = {};
    int64_t row = 0;
    for (; row + 2 <= rows; row += 2) {
      total[0] += get(0, row);
      total[1] += get(0, row + 1);
    }
    if (row < rows) total[0] += get(0, row);
    const Vec<T> mean = (total[0] + total[1]) / number(rows);
    Vec<T> squares = {}, dys = {}, along = {}, rest = {};
    for (row = 0; row < rows; ++row) {
      const Vec<T> off = get(0, row) - mean;
      squares += off * off;
      rest += off;
      if (!HasDy) continue;
      const Vec<T> d = get(1, row);
      dys += d;
      along += off * d;
    }
    const auto slot = [&](int which) { return sums + which * pitch; };
    if (seen == 0) {
      store(slot(kMean), mean);
      store(slot(kOff), rest);
      store(slot(kSquares), squares);
      store(slot(kDy), dys);
      store(slot(kAlong), along);
      return;
    }
    // Around the mean of the first block, which is near all others.
    const Vec<T> moved = mean - load(slot(kMean));
    store(slot(kOff), load(slot(kOff)) + rest + moved * number(rows));
    store(slot(kSquares), load(slot(kSquares)) + squares + moved * (rest + rest + moved * number(rows)));
    if (!HasDy) return;
    store(slot(kDy), load(slot(kDy)) + dys);
    store(slot(kAlong), load(slot(kAlong)) + along + moved * dys);
  }

  template <bool HasDy>
  static void sum_rows(const Params& p, const T* x, const T* dy, Part rows, T* sums) {
    constexpr int64_t width = kWidth<T>;
    const int64_t pitch = padded(p);
    for (int64_t first = rows.begin; first < rows.end; first += kRowsAtOnce) {
      const int64_t count = smaller(kRowsAtOnce, rows.end - first);
      for (int64_t c = 0; c < p.channels; c += width) {
        const int64_t at = first * p.channels + c, some = p.channels - c;
        if (some >= width) {
          add_columns<HasDy>(sums + c, pitch, first - rows.begin, count,
                             [=](int which, int64_t row)
                                 PROFKIT_INLINED { return load((which ? dy : x) + at + row * p.channels); });
        } else {
          add_columns<HasDy>(sums + c, pitch, first - rows.begin, count,
                             [=](int which, int64_t row) PROFKIT_INLINED {
                               return load_first((which ? dy : x) + at + row * p.channels, some);
                             });
        }
      }
    }
  }

  static void sum_own_rows(const Params& p, const CpuCall& call, const Plan& plan, Part own, int thread) {
    T* sums = plan.columns + thread * padded(p) * kColumns;
    const T* dy = dy_of(p, call);
    dy ? sum_rows<true>(p, input(call, 0), dy, own, sums) : sum_rows<false>(p, input(call, 0), dy, own, sums);
  }

  static LineSums column_sums(const Params& p, const Plan& plan, int64_t thread, int64_t rows, int64_t c) {
    const T* sums = plan.columns + thread * padded(p) * kColumns;
    const auto of = [&](int which) { return static_cast<double>(sums[which * padded(p) + c]); };
    const double count = static_cast<double>(rows), off = of(kOff) / count;
    LineSums result;
    result.count = count;
    result.mean = of(kMean) + off;
    result.squares = of(kSquares) - count * off * off;
    if (result.squares < 0) result.squares = 0;
    result.dy = of(kDy);
    result.along = of(kAlong) - off * of(kDy);
    return result;
  }

  // Rows lie one behind the other: those of a block go past the caches together.
  static void fill_rows(const Params& p, const CpuCall& call, const Plan& plan, Part rows, bool streams) {
    constexpr int64_t most = kBlockBytes / static_cast<int64_t>(sizeof(T));
    alignas(64) T block[most];
    T* output = static_cast<T*>(call.output);
    const int64_t at_once = streams ? most / p.channels : 0;
    if (at_once == 0) {
      for (int64_t row = rows.begin; row < rows.end; ++row)
        fill_row(p, call, plan, row, output + row * p.channels);
      return;
    }
    for (int64_t first = rows.begin; first < rows.end; first += at_once) {
      const int64_t count = smaller(at_once, rows.end - first);
      for (int64_t i = 0; i < count; ++i) fill_row(p, call, plan, first + i, block + i * p.channels);
      stream_block(output + first * p.channels, block, count * p.channels);
    }
  }

  static PROFKIT_INLINE void fill_row(const Params& p, const CpuCall& call, const Plan& plan, int64_t row,
                                      T* to) {
    const T *x = input(call, 0), *dy = dy_of(p, call);
    const int64_t at = row * p.channels, pitch = padded(p);
    const T *mean = plan.results, *factor = mean + pitch, *shift = factor + pitch, *slope = shift + pitch;
    T* const out[] = {to};
    if (dy == nullptr) {
      const T* const in[] = {x + at, mean, factor, shift};
      map_block<T>(in, out, p.channels, [](const Vec<T>(&v)[4], Vec<T>(&y)[1]) PROFKIT_INLINED {
        y[0] = (v[0] - v[1]) * v[2] + v[3];
      });
    } else {
      const T* const in[] = {x + at, mean, factor, shift, slope, dy + at};
      map_block<T>(in, out, p.channels, [](const Vec<T>(&v)[6], Vec<T>(&y)[1]) PROFKIT_INLINED {
        y[0] = (v[5] - v[3]) * v[2] - (v[0] - v[1]) * v[4];
      });
    }
  }
};

extern const CpuEntry<profkit_batch_norm_params> batch_norm_vectorized;
const CpuEntry<profkit_batch_norm_params> batch_norm_vectorized =
    EntryOf<BatchNormVectorized, profkit_batch_norm_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
