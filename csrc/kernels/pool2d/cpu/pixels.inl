// Pooling of NHWC images, one direction after the other: a row of pixels is one line of memory, which is
// joined straight down, some kilobytes at a time; then the pixels of each window are joined, with vectors of
// channels. Enters one of the joins.
#pragma once

#include "kernels/cpu/entry.h"
#include "kernels/pool2d/cpu/rows.inl"
#include "kernels/pool2d/params.h"

namespace profkit {
namespace PROFKIT_ISA {

// Results that are made at a time: their pixels between the two directions stay in the first cache.
struct PixelPlan {
  int64_t results, length;  // elements of a thread's pixels, with what a vector may read beyond the last
};

template <class T>
PROFKIT_INLINE PixelPlan pixel_plan(const profkit_pool2d_params& p) {
  constexpr int64_t piece = 16384 / static_cast<int64_t>(sizeof(T));
  const int64_t fitting = (piece / p.channels - p.kernel_w) / p.stride_w + 1;
  const int64_t results = smaller(larger(1, fitting), p.out_w);
  const int64_t pixels = smaller((results - 1) * p.stride_w + p.kernel_w, p.width);
  return {results, round_up(pixels * p.channels + kWidth<T>, kWidth<T>)};
}

// `Vectors` vectors of channels of `count` neighbouring pixels.
template <class T, class How, int Vectors>
PROFKIT_INLINE void join_pixels(const T* pixels, int64_t channels, int64_t count, Vec<T> share,
                                Vec<T> (&joined)[Vectors]) {
  constexpr int width = kWidth<T>;
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) joined[v] = load(pixels + v * width);
  for (int64_t i = 1; i < count; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      joined[v] = How::join(joined[v], load(pixels + i * channels + v * width));
  }
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) joined[v] *= share;
}

template <class T, class How, int Vectors>
PROFKIT_INLINE void store_pixels(const T* pixels, int64_t channels, int64_t count, Vec<T> share, T* out) {
  Vec<T> joined[Vectors];
  join_pixels<T, How, Vectors>(pixels, channels, count, share, joined);
#pragma GCC unroll 4
  for (int v = 0; v < Vectors; ++v) store(out + v * kWidth<T>, joined[v]);
}

// One pixel of the result. `room` is how much of the output may be written from here on: pixels behind this
// one are written later.
template <class T, class How>
PROFKIT_INLINE void finish_pixel(const T* pixels, int64_t channels, int64_t count, Vec<T> share, T* out,
                                 int64_t room) {
  constexpr int64_t width = kWidth<T>;
  if (channels < width && room < width) {
    Vec<T> joined[1];
    join_pixels<T, How, 1>(pixels, channels, count, share, joined);
    return store_some(out, joined[0], channels);
  }
  int64_t c = 0;
  for (; c + 4 * width <= channels; c += 4 * width) {
    store_pixels<T, How, 4>(pixels + c, channels, count, share, out + c);
  }
  for (; c + width <= channels; c += width)
    store_pixels<T, How, 1>(pixels + c, channels, count, share, out + c);
  if (c == channels) return;
  if (c > 0) c = channels - width;  // overlaps the vector before
  store_pixels<T, How, 1>(pixels + c, channels, count, share, out + c);
}

// Results x..x+count of one row of the result; whether what was joined without regard to NaNs must be done
// again.
template <class T, class How>
PROFKIT_INLINE bool pool_pixel_row(const profkit_pool2d_params& p, const CpuCall& call, T* pixels,
                                   int64_t line, int64_t x, int64_t count, int64_t end) {
  const T* input = static_cast<const T*>(call.inputs[0]);
  const int64_t row_pitch = p.width * p.channels;
  const Inside rows(line % p.out_h, p.stride_h, p.pad_top, p.kernel_h, p.height);
  const int64_t first = Inside(x, p.stride_w, p.pad_left, p.kernel_w, p.width).begin;
  const int64_t last = Inside(x + count - 1, p.stride_w, p.pad_left, p.kernel_w, p.width).end;
  const T* from = input + (line / p.out_h * p.height + rows.begin) * row_pitch + first * p.channels;
  Vec<T> watch[2] = {};
  join_rows<T, How>(from, row_pitch, rows.count(), (last - first) * p.channels,
                    input + p.batch * p.height * row_pitch, pixels, watch);
  if (How::is_watched && may_hold_nan<T>(watch[0] + watch[1])) return false;
  for (int64_t i = x; i < x + count; ++i) {
    const Inside columns(i, p.stride_w, p.pad_left, p.kernel_w, p.width);
    const T share = p.mode == PROFKIT_AVERAGE ? 1 / static_cast<T>(rows.count() * columns.count()) : T(1);
    const int64_t place = line * p.out_w + i;
    finish_pixel<T, How>(pixels + (columns.begin - first) * p.channels, p.channels, columns.count(),
                         broadcast(share), static_cast<T*>(call.output) + place * p.channels,
                         (end * p.out_w - place) * p.channels);
  }
  return true;
}

template <class T, class How>
void pool_pixels(const profkit_pool2d_params& p, const CpuCall& call, T* pixels, const Part& part) {
  const int64_t results = pixel_plan<T>(p).results;
  for (int64_t line = part.begin; line < part.end; ++line) {
    for (int64_t x = 0; x < p.out_w; x += results) {
      const int64_t count = smaller(results, p.out_w - x);
      if (!pool_pixel_row<T, How>(p, call, pixels, line, x, count, part.end)) {
        pool_pixel_row<T, ExactLargest<T>>(p, call, pixels, line, x, count, part.end);
      }
    }
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
