// Maximum or average of a sliding window and its input gradient, in either layout: plain loops, sums in
// double. Padding takes no part. The gradient gives each window's dy to the element that was its maximum (the
// first one, row by row), or in equal shares to all its elements inside the image. One thread owns whole
// (image, channel) planes, so that overlapping windows are added up by one thread, in order.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/image_index.h"
#include "kernels/cpu/loops.h"
#include "kernels/pool2d/params.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

using Params = profkit_pool2d_params;

// The part of a window inside the image, rows top..bottom and columns left..right (ends excluded); arrays.cpp
// refuses windows without any element.
struct PoolWindow {
  int64_t top, bottom, left, right;

  PoolWindow(const profkit_pool2d_params& p, int64_t y, int64_t x)
      : top(std::max<int64_t>(y * p.stride_h - p.pad_top, 0)),
        bottom(std::min(y * p.stride_h - p.pad_top + p.kernel_h, p.height)),
        left(std::max<int64_t>(x * p.stride_w - p.pad_left, 0)),
        right(std::min(x * p.stride_w - p.pad_left + p.kernel_w, p.width)) {}

  int64_t elements() const { return (bottom - top) * (right - left); }
};

template <class T>
T pool_at(const Params& p, const T* input, const ImageIndex& in, int64_t n, int64_t c, int64_t y, int64_t x) {
  const PoolWindow window(p, y, x);
  T largest = input[in.at(n, c, window.top, window.left)];
  double sum = 0;
  for (int64_t h = window.top; h < window.bottom; ++h) {
    for (int64_t w = window.left; w < window.right; ++w) {
      const T value = input[in.at(n, c, h, w)];
      if (value > largest || value != value) largest = value;  // NaN propagates, as in the frameworks
      sum += static_cast<double>(value);
    }
  }
  if (p.mode == PROFKIT_MAX) return largest;
  return static_cast<T>(sum / static_cast<double>(window.elements()));
}

template <class T>
void forward(const Params& p, const ImageIndex& in, const ImageIndex& out, const Buffers& buffers,
             int threads) {
  const T* input = buffers.input_as<T>(0);
  T* output = buffers.output_as<T>();
  parallel_pairs(threads, p.batch, p.channels, [&](int64_t n, int64_t c) {
    for (int64_t y = 0; y < p.out_h; ++y) {
      for (int64_t x = 0; x < p.out_w; ++x) output[out.at(n, c, y, x)] = pool_at(p, input, in, n, c, y, x);
    }
  });
}

// One plane of the arrays; x is null for an average.
template <class T>
struct Plane {
  const T *x, *dy;
  T* dx;
  const ImageIndex &in, &out;

  int64_t at(int64_t h, int64_t w) const { return in.at(0, 0, h, w); }
};

template <class T>
int64_t place_of_maximum(const Plane<T>& plane, const PoolWindow& window) {
  int64_t place = plane.at(window.top, window.left);
  for (int64_t h = window.top; h < window.bottom; ++h) {
    for (int64_t w = window.left; w < window.right; ++w) {
      const T value = plane.x[plane.at(h, w)], largest = plane.x[place];
      if (value > largest || (value != value && largest == largest)) place = plane.at(h, w);
    }
  }
  return place;
}

template <class T>
void spread(const Plane<T>& plane, const PoolWindow& window, T dy) {
  const T share = dy / static_cast<T>(window.elements());
  for (int64_t h = window.top; h < window.bottom; ++h) {
    for (int64_t w = window.left; w < window.right; ++w) plane.dx[plane.at(h, w)] += share;
  }
}

template <class T>
void fill_plane(const Params& p, const Plane<T>& plane) {
  for (int64_t h = 0; h < p.height; ++h) {
    for (int64_t w = 0; w < p.width; ++w) plane.dx[plane.at(h, w)] = T(0);
  }
  for (int64_t y = 0; y < p.out_h; ++y) {
    for (int64_t x = 0; x < p.out_w; ++x) {
      const PoolWindow window(p, y, x);
      const T dy = plane.dy[plane.out.at(0, 0, y, x)];
      if (plane.x != nullptr) {
        plane.dx[place_of_maximum(plane, window)] += dy;
      } else {
        spread(plane, window, dy);
      }
    }
  }
}

template <class T>
void gradient(const Params& p, const ImageIndex& in, const ImageIndex& out, const Buffers& buffers,
              int threads) {
  const bool is_max = p.mode == PROFKIT_MAX;
  const T* x = is_max ? buffers.input_as<T>(0) : nullptr;
  const T* dy = static_cast<const T*>(buffers.inputs[is_max ? 1 : 0]);
  T* dx = buffers.output_as<T>();
  parallel_pairs(threads, p.batch, p.channels, [&](int64_t n, int64_t c) {
    const int64_t first = in.at(n, c, 0, 0);
    fill_plane<T>(p, {x != nullptr ? x + first : nullptr, dy + out.at(n, c, 0, 0), dx + first, in, out});
  });
}

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  const ImageIndex in(p.layout, p.channels, p.height, p.width), out(p.layout, p.channels, p.out_h, p.out_w);
  p.direction == PROFKIT_FORWARD ? forward<T>(p, in, out, buffers, threads)
                                 : gradient<T>(p, in, out, buffers, threads);
}

}  // namespace

PROFKIT_REFERENCE(pool2d)

}  // namespace profkit
