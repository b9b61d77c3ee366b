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
  // Of planes, whose lanes are summed up before they are joined in double.
  static constexpr int64_t kVectorsAtOnce = 64, kChannelsAtOnce = 512;

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
    const int64_t pixels = p.height * p.width,
                  planes = larger(1, kBlockBytes / static_cast<int64_t>(sizeof(T)) / pixels);
    on_threads(static_cast<int>(threads), [&](int thread) {
      const Part own = part_of(lines, 1, threads, thread);
      for (int64_t end = own.end; end > own.begin;) {
        const int64_t begin = larger(own.begin, end - (by_rows(p) ? kRowsAtOnce : planes));
        by_rows(p) ? fill_rows(p, call, plan, {begin, end}, streams)
                   : fill_planes(p, call, plan, {begin, end}, streams);
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
    LineSums* sums = plan.planes + thread * p.channels;
    for (int64_t c = 0; c < p.channels; ++c) sums[c] = {};
    dy_of(p, call) ? sum_planes<true>(p, call, own, sums) : sum_planes<false>(p, call, own, sums);
  }

  template <bool HasDy>
  static void sum_planes(const Params& p, const CpuCall& call, Part own, LineSums* sums) {
    const T *x = input(call, 0), *dy = dy_of(p, call);
    const int64_t pixels = p.height * p.width, images = kVectorsAtOnce / ceil_div(pixels, kWidth<T>);
    if (images > 1) {
      for (int64_t image = own.begin / p.channels; image * p.channels < own.end; image += images) {
        for (int64_t c = 0; c < p.channels; c += kChannelsAtOnce) {
          const Part channels = {c, smaller(p.channels, c + kChannelsAtOnce)};
          sum_small_planes<HasDy>(p, call, own, {image, image + images}, channels, sums);
        }
      }
      return;
    }
    for (int64_t plane = own.begin, c = own.begin % p.channels; plane < own.end; ++plane) {
      const int64_t first = plane * pixels;
      LineSums found[1];
      sums_of_lines<T, HasDy>(
          x + first, pixels,
          [=](int, int64_t at, int64_t some)
              PROFKIT_INLINED { return HasDy ? load_some(dy + first + at, some) : Vec<T>{}; },
          found);
      sums[c].join(found[0]);
      if (++c == p.channels) c = 0;
    }
  }

  // Planes of a few vectors: several images' are summed up lane by lane, for so many channels that memory
  // is read in long runs and the lanes stay in the second cache.
  template <bool HasDy>
  static void sum_small_planes(const Params& p, const CpuCall& call, Part own, Part images, Part channels,
                               LineSums* sums) {
    const T *x = input(call, 0), *dy = dy_of(p, call);
    const int64_t pixels = p.height * p.width;
    LaneSums<T, HasDy> lanes[kChannelsAtOnce][1][1];
    T near[kChannelsAtOnce][1];
    int64_t counts[kChannelsAtOnce] = {};
    for (int64_t image = images.begin; image < images.end; ++image) {
      const int64_t first = image * p.channels, end = smaller(own.end, first + channels.end);
      for (int64_t plane = larger(own.begin, first + channels.begin); plane < end; ++plane) {
        const int64_t k = plane - first - channels.begin, begin = plane * pixels;
        if (counts[k] == 0) {
          near[k][0] = mean_of_beginning(x + begin, pixels);
          lanes[k][0][0] = LaneSums<T, HasDy>{};
        }
        counts[k] += pixels;
        add_lines<T, HasDy>(
            x + begin, pixels, near[k],
            [=](int, int64_t at, int64_t some)
                PROFKIT_INLINED { return HasDy ? load_some(dy + begin + at, some) : Vec<T>{}; },
            lanes[k]);
      }
    }
    for (int64_t k = 0; k < channels.size(); ++k) {
      if (counts[k] == 0) continue;
      sums[channels.begin + k].join(lanes[k][0][0].of_line(near[k][0], static_cast<double>(counts[k])));
    }
  }

  // Planes lie one behind the other: small ones go past the caches together.
  static void fill_planes(const Params& p, const CpuCall& call, const Plan& plan, Part planes, bool streams) {
    constexpr int64_t most = kBlockBytes / static_cast<int64_t>(sizeof(T));
    alignas(64) T block[most];
    const int64_t pixels = p.height * p.width;
    T* output = static_cast<T*>(call.output) + planes.begin * pixels;
    const bool is_block = streams && planes.size() * pixels <= most;
    T* to = is_block ? block : output;
    // Backward here, too: what is read next is then what was prefetched.
    for (int64_t i = planes.size() - 1, c = (planes.end - 1) % p.channels; i >= 0; --i) {
      fill_plane(p, call, plan.results + c, (planes.begin + i) * pixels, to + i * pixels,
                 streams && !is_block);
      c = c == 0 ? p.channels - 1 : c - 1;
    }
    if (is_block) stream_block(output, block, planes.size() * pixels);
  }

  static PROFKIT_INLINE void fill_plane(const Params& p, const CpuCall& call, const T* results, int64_t at,
                                        T* to, bool streams) {
    const T *x = input(call, 0), *dy = dy_of(p, call);
    const int64_t pixels = p.height * p.width, pitch = padded(p);
    const Vec<T> mean = broadcast(results[0]), factor = broadcast(results[pitch]),
                 shift = broadcast(results[2 * pitch]), slope = broadcast(results[3 * pitch]);
    T* const out[] = {to};
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

  // A vector of columns of up to kRowsAtOnce rows, added to what came before; around the mean of the first
  // ones, unless there is a better one already.
  template <bool HasDy, class Load>
  static PROFKIT_INLINE void add_columns(T* sums, int64_t pitch, bool is_first, bool has_means, int64_t rows,
                                         const Load& get) {
    const auto slot = [&](int which) { return sums + which * pitch; };
    LaneSums<T, HasDy> found[2] = {};
    if (is_first && !has_means) {
      Vec<T> total = {};
      for (int64_t row = 0; row < rows; ++row) total += get(0, row);
      store(slot(kMean), total / broadcast(static_cast<T>(rows)));
    }
    const Vec<T> mean = load(slot(kMean));
    const auto second = [&](int64_t row) PROFKIT_INLINED { return HasDy ? get(1, row) : Vec<T>{}; };
    int64_t row = 0;
    for (; row + 2 <= rows; row += 2) {
      found[0].add(get(0, row) - mean, second(row));
      found[1].add(get(0, row + 1) - mean, second(row + 1));
    }
    if (row < rows) found[1].add(get(0, row) - mean, second(row));
    found[0].add(found[1]);
    // A block's own sums meet those of all rows once: row by row, large sums would swallow small numbers.
#pragma GCC unroll 4
    for (int k = 0; k < found[0].kCount; ++k) {
      const Vec<T> before = is_first ? Vec<T>{} : load(slot(kOff + k));
      store(slot(kOff + k), before + found[0].sums[k]);
    }
  }

  template <bool HasDy>
  static void sum_rows(const Params& p, const T* x, const T* dy, Part rows, bool has_means, T* sums) {
    constexpr int64_t width = kWidth<T>;
    const int64_t pitch = padded(p);
    for (int64_t first = rows.begin; first < rows.end; first += kRowsAtOnce) {
      const int64_t count = smaller(kRowsAtOnce, rows.end - first);
      for (int64_t c = 0; c < p.channels; c += width) {
        const int64_t at = first * p.channels + c, some = p.channels - c;
        if (some >= width) {
          add_columns<HasDy>(sums + c, pitch, first == rows.begin, has_means, count,
                             [=](int which, int64_t row)
                                 PROFKIT_INLINED { return load((which ? dy : x) + at + row * p.channels); });
        } else {
          add_columns<HasDy>(sums + c, pitch, first == rows.begin, has_means, count,
                             [=](int which, int64_t row) PROFKIT_INLINED {
                               return load_first((which ? dy : x) + at + row * p.channels, some);
                             });
        }
      }
    }
  }

  static void sum_own_rows(const Params& p, const CpuCall& call, const Plan& plan, Part own, int thread) {
    T* sums = plan.columns + thread * padded(p) * kColumns;
    const T *x = input(call, 0), *dy = dy_of(p, call);
    const auto sum_up = [&](bool has_means) {
      dy ? sum_rows<true>(p, x, dy, own, has_means, sums) : sum_rows<false>(p, x, dy, own, has_means, sums);
    };
    sum_up(false);
    if (move_far_means(p, own.size(), sums)) sum_up(true);
  }

  // A beginning that lies far from the rest of its column costs digits: then the column's mean takes its
  // place. Whether there was such a column.
  static bool move_far_means(const Params& p, int64_t rows, T* sums) {
    const int64_t pitch = padded(p);
    const double count = static_cast<double>(rows);
    bool is_far = false;
    for (int64_t c = 0; c < p.channels; ++c) {
      const double off = static_cast<double>(sums[kOff * pitch + c]) / count;
      // As in sums_of_lines: where what lies around the mean is less than a fifth of the squares.
      const bool is_moved = 5 * count * off * off > 4 * static_cast<double>(sums[kSquares * pitch + c]);
      if (!is_moved) continue;
      sums[kMean * pitch + c] = static_cast<T>(static_cast<double>(sums[kMean * pitch + c]) + off);
      is_far = true;
    }
    return is_far;
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
    if (p.direction == PROFKIT_FORWARD) return result;
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
