// Convolution and its gradients by definition, in either layout: plain loops, sums in double. One thread owns
// whole (image, channel) planes, or whole filters of the weight gradient. Correct, not fast. Indices: n
// image, oc/ic output/input channel, c input channel inside its group, y/x output position, h/w input
// position, r/s filter row/column.
#include "kernels/conv2d/params.h"
#include "kernels/cpu/image_index.h"
#include "kernels/cpu/loops.h"
#include "kernels/registry.h"

namespace profkit {
namespace {

using Params = profkit_conv2d_params;

// Geometry that all three directions share.
struct Geometry {
  const Params& p;
  ImageIndex in, out;
  int64_t in_per_group, out_per_group;

  explicit Geometry(const Params& params)
      : p(params),
        in(params.layout, params.in_channels, params.height, params.width),
        out(params.layout, params.out_channels, params.out_h, params.out_w),
        in_per_group(params.in_channels / params.groups),
        out_per_group(params.out_channels / params.groups) {}

  int64_t weight(int64_t oc, int64_t c, int64_t r, int64_t s) const {
    return ((oc * in_per_group + c) * p.kernel_h + r) * p.kernel_w + s;
  }
  int64_t input_row(int64_t y, int64_t r) const { return y * p.stride_h + r * p.dilation_h - p.pad_top; }
  int64_t input_column(int64_t x, int64_t s) const { return x * p.stride_w + s * p.dilation_w - p.pad_left; }
};

template <class T>
double forward_at(const Geometry& g, const T* image, const T* weights, int64_t n, int64_t oc, int64_t y,
                  int64_t x) {
  const int64_t first_channel = oc / g.out_per_group * g.in_per_group;
  double sum = 0;
  for (int64_t c = 0; c < g.in_per_group; ++c) {
    for (int64_t r = 0; r < g.p.kernel_h; ++r) {
      const int64_t h = g.input_row(y, r);
      if (h < 0 || h >= g.p.height) continue;
      const T* row = image + g.in.at(n, first_channel + c, h, 0);
      const T* taps = weights + g.weight(oc, c, r, 0);
      for (int64_t s = 0; s < g.p.kernel_w; ++s) {
        const int64_t w = g.input_column(x, s);
        if (w < 0 || w >= g.p.width) continue;
        sum += static_cast<double>(row[w * g.in.w_step]) * static_cast<double>(taps[s]);
      }
    }
  }
  return sum;
}

template <class T>
void forward(const Geometry& g, const Buffers& buffers, int threads) {
  const T* image = buffers.input_as<T>(0);
  const T* weights = buffers.input_as<T>(1);
  const T* bias = g.p.bias != 0 ? buffers.input_as<T>(2) : nullptr;
  T* output = buffers.output_as<T>();
  parallel_pairs(threads, g.p.batch, g.p.out_channels, [&](int64_t n, int64_t oc) {
    for (int64_t y = 0; y < g.p.out_h; ++y) {
      for (int64_t x = 0; x < g.p.out_w; ++x) {
        double value = forward_at(g, image, weights, n, oc, y, x);
        if (bias != nullptr) value += static_cast<double>(bias[oc]);
        if (g.p.activation == PROFKIT_RELU && value < 0) value = 0;
        output[g.out.at(n, oc, y, x)] = static_cast<T>(value);
      }
    }
  });
}

// The output position whose filter tap lies `offset` before it, or -1: position * stride == offset.
int64_t position_of(int64_t offset, int64_t stride, int64_t count) {
  if (offset < 0 || offset % stride != 0 || offset / stride >= count) return -1;
  return offset / stride;
}

template <class T>
double input_gradient_at(const Geometry& g, const T* dy, const T* weights, int64_t n, int64_t ic, int64_t h,
                         int64_t w) {
  const int64_t group = ic / g.in_per_group, c = ic % g.in_per_group;
  double sum = 0;
  for (int64_t r = 0; r < g.p.kernel_h; ++r) {
    const int64_t y = position_of(h + g.p.pad_top - r * g.p.dilation_h, g.p.stride_h, g.p.out_h);
    if (y < 0) continue;
    for (int64_t s = 0; s < g.p.kernel_w; ++s) {
      const int64_t x = position_of(w + g.p.pad_left - s * g.p.dilation_w, g.p.stride_w, g.p.out_w);
      if (x < 0) continue;
      for (int64_t k = 0; k < g.out_per_group; ++k) {
        const int64_t oc = group * g.out_per_group + k;
        sum += static_cast<double>(dy[g.out.at(n, oc, y, x)]) *
               static_cast<double>(weights[g.weight(oc, c, r, s)]);
      }
    }
  }
  return sum;
}

template <class T>
void input_gradient(const Geometry& g, const Buffers& buffers, int threads) {
  const T* dy = buffers.input_as<T>(0);
  const T* weights = buffers.input_as<T>(1);
  T* dx = buffers.output_as<T>();
  parallel_pairs(threads, g.p.batch, g.p.in_channels, [&](int64_t n, int64_t ic) {
    for (int64_t h = 0; h < g.p.height; ++h) {
      for (int64_t w = 0; w < g.p.width; ++w) {
        dx[g.in.at(n, ic, h, w)] = static_cast<T>(input_gradient_at(g, dy, weights, n, ic, h, w));
      }
    }
  });
}

template <class T>
double weight_gradient_at(const Geometry& g, const T* image, const T* dy, int64_t oc, int64_t c, int64_t r,
                          int64_t s) {
  const int64_t ic = oc / g.out_per_group * g.in_per_group + c;
  double sum = 0;
  for (int64_t n = 0; n < g.p.batch; ++n) {
    for (int64_t y = 0; y < g.p.out_h; ++y) {
      const int64_t h = g.input_row(y, r);
      if (h < 0 || h >= g.p.height) continue;
      const T* row = image + g.in.at(n, ic, h, 0);
      const T* errors = dy + g.out.at(n, oc, y, 0);
      for (int64_t x = 0; x < g.p.out_w; ++x) {
        const int64_t w = g.input_column(x, s);
        if (w < 0 || w >= g.p.width) continue;
        sum += static_cast<double>(row[w * g.in.w_step]) * static_cast<double>(errors[x * g.out.w_step]);
      }
    }
  }
  return sum;
}

template <class T>
void weight_gradient(const Geometry& g, const Buffers& buffers, int threads) {
  const T* image = buffers.input_as<T>(0);
  const T* dy = buffers.input_as<T>(1);
  T* dw = buffers.output_as<T>();
  parallel_pairs(threads, g.p.out_channels, g.in_per_group, [&](int64_t oc, int64_t c) {
    for (int64_t r = 0; r < g.p.kernel_h; ++r) {
      for (int64_t s = 0; s < g.p.kernel_w; ++s) {
        dw[g.weight(oc, c, r, s)] = static_cast<T>(weight_gradient_at(g, image, dy, oc, c, r, s));
      }
    }
  });
}

template <class T>
void launch(const Params& params, const Buffers& buffers, int threads) {
  const Geometry geometry(params);
  if (params.direction == PROFKIT_FORWARD) forward<T>(geometry, buffers, threads);
  if (params.direction == PROFKIT_INPUT_GRADIENT) input_gradient<T>(geometry, buffers, threads);
  if (params.direction == PROFKIT_WEIGHT_GRADIENT) weight_gradient<T>(geometry, buffers, threads);
}

}  // namespace

PROFKIT_REFERENCE(conv2d)

}  // namespace profkit
