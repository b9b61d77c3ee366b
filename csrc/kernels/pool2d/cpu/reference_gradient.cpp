// Input gradient of pooling, as the definition says it: each window hands its dy to the element that was its
// maximum (the first one, row by row), or in equal shares to all its elements inside the image. One thread
// owns whole (image, channel) planes, so that windows which overlap are added up by one thread, in order.
#include "kernels/cpu/image_index.h"
#include "kernels/pool2d/cpu/window.h"
#include "kernels/pool2d/kernels.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

using Params = profkit_pool2d_params;

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
void launch(const Params& p, const Buffers& buffers, int threads) {
  const bool is_max = p.mode == PROFKIT_MAX;
  const T* x = is_max ? static_cast<const T*>(buffers.inputs[0]) : nullptr;
  const T* dy = static_cast<const T*>(buffers.inputs[is_max ? 1 : 0]);
  T* dx = static_cast<T*>(buffers.output);
  const ImageIndex in(p.layout, p.channels, p.height, p.width), out(p.layout, p.channels, p.out_h, p.out_w);
  parallel(threads, [&](int thread) {
    const Range planes = split(p.batch * p.channels, threads, thread);
    for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
      const int64_t n = plane / p.channels, c = plane % p.channels;
      const int64_t first = in.at(n, c, 0, 0);
      fill_plane<T>(p, {x != nullptr ? x + first : nullptr, dy + out.at(n, c, 0, 0), dx + first, in, out});
    }
  });
}

}  // namespace

void pool2d_reference_gradient(const profkit_pool2d_params& params, const Buffers& buffers, int threads) {
  params.dtype == PROFKIT_FLOAT64 ? launch<double>(params, buffers, threads)
                                  : launch<float>(params, buffers, threads);
}

}  // namespace profkit
