// Images to and from Winograd's tiles, whatever the layout: a rectangle of pixels as [row][column][lane],
// lanes being one vector of channels. A convolution with stride s is one with stride 1 over s x s phases of
// the image: phase (ph, pw) holds the pixels (s*i + ph, s*j + pw), and phases act as additional channels.
// Going in, everything outside the image becomes zero, so that no transform tests a bound. A thread owns its
// rectangle, which fits L1. Bottleneck: shuffles (NCHW) or L1 bandwidth (NHWC).
#pragma once

#include "kernels/conv2d/cpu/gather/geometry.inl"
#include "kernels/conv2d/cpu/gather/rows.inl"

namespace profkit {
namespace PROFKIT_ISA {

// One channel of one phase. Channels of the reduction run over (phase, channel).
struct WinogradChannel {
  int64_t channel, phase_h, phase_w;

  WinogradChannel(int64_t index, int64_t channels, int64_t stride)
      : channel(index % channels), phase_h(index / channels / stride), phase_w(index / channels % stride) {}
};

// Which elements of an axis of a rectangle exist: element i is source index start + i * stride.
struct WinogradSpan {
  int64_t start, inner, outer;

  WinogradSpan(const Axis& axis, int64_t stride, int64_t first, int64_t phase, int64_t length)
      : start(stride * first + phase + axis.first) {
    inner = smaller(length, start < 0 ? ceil_div(-start, stride) : 0);
    outer = larger(inner, smaller(length, start < axis.size ? ceil_div(axis.size - start, stride) : 0));
  }
};

// Pixels of a rectangle, counted in phases: rows from `row`, columns from `column`.
struct WinogradRectangle {
  int64_t image, row, column, rows, columns;
};

// `Width` neighbouring columns of `Width` planes become `Width` pixels.
template <class T>
PROFKIT_INLINE void planes_to_pixels(T* to, const T* from, int64_t plane) {
  constexpr int width = kWidth<T>;
  Vec<T> block[width];
#pragma GCC unroll 16
  for (int i = 0; i < width; ++i) block[i] = load(from + i * plane);
  transpose<T>(block);
#pragma GCC unroll 16
  for (int i = 0; i < width; ++i) store(to + i * width, block[i]);
}

template <class T>
struct WinogradImages {
  static constexpr int64_t kLanes = kWidth<T>;
  const Gather& g;
  int64_t stride;
  int64_t all_channels, column_stride, row_stride, plane, image_stride;  // of the source

  WinogradImages(const Gather& gather, int64_t the_stride) : g(gather), stride(the_stride) {
    all_channels = g.channels * g.groups;
    column_stride = g.nhwc ? all_channels : 1;
    row_stride = g.w.size * column_stride;
    plane = g.nhwc ? 1 : g.h.size * g.w.size;
    image_stride = all_channels * g.h.size * g.w.size;
  }

  // Whether vectors of channels are full.
  bool whole() const { return g.channels % kLanes == 0; }

  // Any lanes: those from `first` of the reduction of `group`.
  void read_lanes(T* pixels, const T* source, const WinogradRectangle& at, int64_t group,
                  int64_t first) const {
    const int64_t count = g.channels * stride * stride;
    const T* image = source + at.image * image_stride + group * g.channels * plane;
    for (int64_t i = 0; i < at.rows * at.columns; ++i) store(pixels + i * kLanes, Vec<T>{});
    for (int64_t lane = 0; lane < smaller(kLanes, count - first); ++lane) {
      read_lane(pixels + lane, image, at, WinogradChannel(first + lane, g.channels, stride));
    }
  }

  void read_lane(T* pixels, const T* image, const WinogradRectangle& at, const WinogradChannel& one) const {
    const WinogradSpan h(g.h, stride, at.row, one.phase_h, at.rows);
    const WinogradSpan w(g.w, stride, at.column, one.phase_w, at.columns);
    const int64_t step = stride * column_stride;
    const T* from = image + one.channel * plane + h.start * row_stride + w.start * column_stride;
    for (int64_t y = h.inner; y < h.outer; ++y) {
      T* to = pixels + y * at.columns * kLanes;
      for (int64_t x = w.inner; x < w.outer; ++x) to[x * kLanes] = from[y * stride * row_stride + x * step];
    }
  }

  // All phases of a vector of channels from `channel`: stride times as many rows and columns.
  void read_phases(T* pixels, const T* source, const WinogradRectangle& at, int64_t group,
                   int64_t channel) const {
    const int64_t rows = at.rows * stride, columns = at.columns * stride;
    const WinogradSpan h(g.h, 1, at.row * stride, 0, rows), w(g.w, 1, at.column * stride, 0, columns);
    const T* image = source + at.image * image_stride + (group * g.channels + channel) * plane;
    for (int64_t y = 0; y < rows; ++y) {
      T* to = pixels + y * columns * kLanes;
      const bool exists = y >= h.inner && y < h.outer;
      const int64_t inner = exists ? w.inner : columns, outer = exists ? w.outer : columns;
      for (int64_t x = 0; x < inner; ++x) store(to + x * kLanes, Vec<T>{});
      if (inner < outer) {
        const T* from = image + (h.start + y) * row_stride + (w.start + inner) * column_stride;
        g.nhwc ? copy_pixels(to + inner * kLanes, from, outer - inner)
               : gather_planes(to + inner * kLanes, from, outer - inner);
      }
      for (int64_t x = outer; x < columns; ++x) store(to + x * kLanes, Vec<T>{});
    }
  }

  PROFKIT_INLINE void copy_pixels(T* to, const T* from, int64_t count) const {
    for (int64_t x = 0; x < count; ++x) store(to + x * kLanes, load(from + x * column_stride));
  }

  PROFKIT_INLINE void gather_planes(T* to, const T* from, int64_t count) const {
    if (count >= kLanes) {
      for (int64_t x = 0; x + kLanes <= count; x += kLanes)
        planes_to_pixels(to + x * kLanes, from + x, plane);
      const int64_t last = count - kLanes;
      if (count % kLanes) planes_to_pixels(to + last * kLanes, from + last, plane);
      return;
    }
    for (int64_t x = 0; x < count; ++x) {
      for (int64_t lane = 0; lane < kLanes; ++lane) to[x * kLanes + lane] = from[lane * plane + x];
    }
  }
};

// `count` staged pixels to the lanes' planes, where they are neighbours.
template <class T>
void pixels_to_planes(T* to, int64_t plane, const T* pixels, int64_t count, int64_t lanes) {
  constexpr int64_t width = kWidth<T>;
  if (count < width) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      for (int64_t x = 0; x < count; ++x) to[lane * plane + x] = pixels[x * width + lane];
    }
    return;
  }
  for (int64_t x = 0; x < count; x += width) {
    const int64_t first = smaller(x, count - width);
    Vec<T> block[width];
#pragma GCC unroll 16
    for (int i = 0; i < width; ++i) block[i] = load(pixels + (first + i) * width);
    transpose<T>(block);
#pragma GCC unroll 16
    for (int i = 0; i < width; ++i) {
      if (i < lanes) store(to + i * plane + first, block[i]);
    }
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
