// Maximum or average under a sliding window, in either layout: plain loops, sums in double. Padding takes no
// part. One thread owns whole (image, channel) planes.
#include "kernels/cpu/image_index.h"
#include "kernels/pool2d/cpu/window.h"
#include "kernels/pool2d/kernels.h"
#include "runtime/threads.h"

namespace profkit {
namespace {

using Params = profkit_pool2d_params;

template <class T>
T pool_at(const Params& p, const T* input, const ImageIndex& in, int64_t n, int64_t c, int64_t y, int64_t x) {
  const PoolWindow window(p, y, x);
  T largest = input[in.at(n, c, window.top, window.left)];
  double sum = 0;
  for (int64_t h = window.top; h < window.bottom; ++h) {
    for (int64_t w = window.left; w < window.right; ++w) {
      const T value = input[in.at(n, c, h, w)];
      if (value > largest || value != value) largest = value;  // a NaN stays, as in the frameworks
      sum += static_cast<double>(value);
    }
  }
  if (p.mode == PROFKIT_MAX) return largest;
  return static_cast<T>(sum / static_cast<double>(window.elements()));
}

template <class T>
void launch(const Params& p, const Buffers& buffers, int threads) {
  const T* input = static_cast<const T*>(buffers.inputs[0]);
  T* output = static_cast<T*>(buffers.output);
  const ImageIndex in(p.layout, p.channels, p.height, p.width), out(p.layout, p.channels, p.out_h, p.out_w);
  parallel(threads, [&](int thread) {
    const Range planes = split(p.batch * p.channels, threads, thread);
    for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
      const int64_t n = plane / p.channels, c = plane % p.channels;
      for (int64_t y = 0; y < p.out_h; ++y) {
        for (int64_t x = 0; x < p.out_w; ++x) output[out.at(n, c, y, x)] = pool_at(p, input, in, n, c, y, x);
      }
    }
  });
}

}  // namespace

void pool2d_reference(const profkit_pool2d_params& params, const Buffers& buffers, int threads) {
  if (params.direction != PROFKIT_FORWARD) return pool2d_reference_gradient(params, buffers, threads);
  params.dtype == PROFKIT_FLOAT64 ? launch<double>(params, buffers, threads)
                                  : launch<float>(params, buffers, threads);
}

}  // namespace profkit
