// The three matrix products behind im2col, for a column matrix of one image or of many:
//   forward          y = w * columns          (NHWC: y = columns * w)
//   input gradient   columns = w' * dy        (NHWC: columns = dy * w')
//   weight gradient  dw = dy * columns'       (NHWC: dw = columns' * dy)
// NHWC needs the weights as [(kh, kw, c)][out channel]: order_weights makes that copy, restore_weights undoes
// it.
#pragma once

#include <string.h>

#include "kernels/conv2d/cpu/columns/matrix.inl"

namespace profkit {
namespace PROFKIT_ISA {

// NCHW data of several images as one matrix [channel][(image, position)].
template <class T>
struct ImageMatrix {
  const T* data;
  int64_t image_stride, area;
};

// As A: rows are channels, the reduction runs over (image, position).
template <class T>
struct ChannelRows {
  ImageMatrix<T> x;
  const T* block(T* buffer, int64_t m0, int64_t m, int64_t k0, int64_t k) const {
    // Panel by panel, images inside: what packing spills past a panel's end is then always written later.
    for (int64_t i = 0; i < m; i += kTileRows) {
      for (int64_t done = 0; done < k;) {
        const int64_t image = (k0 + done) / x.area, position = (k0 + done) % x.area;
        const int64_t length = smaller(x.area - position, k - done);
        const Strided<T> channels{x.data + image * x.image_stride + position, x.area, 1};
        pack_panel<T, kTileRows>(buffer + i * k + done * kTileRows, channels, m0 + i, 0,
                                 smaller(kTileRows, m - i), length);
        done += length;
      }
    }
    return buffer;
  }
};

// As B: columns are (image, position), the reduction runs over channels.
template <class T>
struct PositionColumns {
  ImageMatrix<T> x;
  const T* block(T* buffer, int64_t n0, int64_t n, int64_t k0, int64_t k) const {
    constexpr int width = kTileColumns<T>;
    for (int64_t j = 0; j < n; j += width) {
      const int64_t first = n0 + j, columns = smaller(width, n - j);
      const int64_t image = first / x.area, position = first % x.area;
      T* to = buffer + j * k;
      if (position + columns <= x.area) {
        const Strided<T> inside{x.data + image * x.image_stride + position, 1, x.area};
        pack_panel<T, width>(to, inside, 0, k0, columns, k);
        continue;
      }
      for (int64_t c = 0; c < columns; ++c) {
        const T* from = x.data + (first + c) / x.area * x.image_stride + (first + c) % x.area;
        for (int64_t p = 0; p < k; ++p) to[p * width + c] = from[(k0 + p) * x.area];
      }
    }
    return buffer;
  }
};

template <class T>
void order_weights(const Gather& g, const T* weights, T* ordered) {
  const int64_t taps = g.taps();
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t c = 0; c < g.channels; ++c) {
      T* row = ordered + (tap * g.channels + c) * g.out_channels;
      for (int64_t n = 0; n < g.out_channels; ++n) row[n] = weights[n * g.reduction() + c * taps + tap];
    }
  }
}
template <class T>
void restore_weights(const Gather& g, const T* ordered, T* weights) {
  const int64_t taps = g.taps();
  for (int64_t n = 0; n < g.out_channels; ++n) {
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        weights[n * g.reduction() + c * taps + tap] = ordered[(tap * g.channels + c) * g.out_channels + n];
      }
    }
  }
}

// One product for `images` images of one group: its shape, and the parts that threads take of it.
template <class T>
struct ColumnProduct {
  Gather g;
  int64_t direction, images;
  int64_t m, n, k;
  Grid grid;
  Blocks blocks;
  int64_t a_elements, b_elements;

  ColumnProduct(const profkit_conv2d_params& p, int64_t image_count, int threads, const CpuBlocking& blocking)
      : g(forward_gather(p)), direction(p.direction), images(image_count) {
    const int64_t positions = images * g.positions(), filter = g.reduction(), channels = g.out_channels;
    const bool forward = direction == PROFKIT_FORWARD, input = direction == PROFKIT_INPUT_GRADIENT;
    k = forward ? filter : input ? channels : positions;
    const int64_t first = forward || !input ? channels : filter,
                  second = forward || input ? positions : filter;
    m = g.nhwc ? second : first;
    n = g.nhwc ? first : second;
    grid = choose_grid(ceil_div(m, kTileRows), ceil_div(n, kTileColumns<T>), m, n, threads);
    blocks = choose_blocks<T>(m_part(), n_part(), k, blocking);
    a_elements = round_up(packed_a_elements<T>(blocks), 64);
    b_elements = round_up(packed_b_elements<T>(blocks), 64);
  }

  int64_t m_part() const { return largest_part(m, kTileRows, grid.rows); }
  int64_t n_part() const { return largest_part(n, kTileColumns<T>, grid.columns); }
  CpuTunables tunables() const { return block_tunables<T>(m_part(), n_part(), k, 1, blocks); }

  int64_t column_elements() const { return checked_product(g.reduction(), images * g.positions()); }
  // Distance of neighbours in the column matrix, which is [filter][positions] or [positions][filter].
  int64_t pitch() const { return g.nhwc ? g.reduction() : images * g.positions(); }

  Part rows(int64_t thread) const { return grid.rows_of(m, kTileRows, thread); }
  Part columns(int64_t thread) const { return grid.columns_of(n, kTileColumns<T>, thread); }

  // What one call works on. `weights` are ordered for NHWC; y is the group's first channel of the first
  // image.
  struct Operands {
    const T* weights;
    const T* y;
    T* columns;
    Out<T> out;
    T *buffer_a, *buffer_b;
  };

  void run(const Operands& x, Part r, Part c) const {
    if (r.size() == 0 || c.size() == 0) return;
    g.nhwc ? run_pixels(x, r, c) : run_planes(x, r, c);
  }

 private:
  void run_planes(const Operands& x, Part r, Part c) const {
    const int64_t area = g.positions(), all = g.out_channels * g.groups;
    const ImageMatrix<T> y{x.y, all * area, area};
    if (direction == PROFKIT_FORWARD) {
      multiply(x, r, c, StridedA<T>{{x.weights, k, 1}}, StridedB<T>{{x.columns, 1, pitch()}});
    } else if (direction == PROFKIT_INPUT_GRADIENT) {
      multiply(x, r, c, StridedA<T>{{x.weights, 1, g.reduction()}}, PositionColumns<T>{y});
    } else {
      multiply(x, r, c, ChannelRows<T>{y}, StridedB<T>{{x.columns, pitch(), 1}});
    }
  }

  void run_pixels(const Operands& x, Part r, Part c) const {
    const int64_t all = g.out_channels * g.groups;
    if (direction == PROFKIT_FORWARD) {
      multiply(x, r, c, StridedA<T>{{x.columns, pitch(), 1}}, StridedB<T>{{x.weights, 1, g.out_channels}});
    } else if (direction == PROFKIT_INPUT_GRADIENT) {
      multiply(x, r, c, StridedA<T>{{x.y, all, 1}}, StridedB<T>{{x.weights, g.out_channels, 1}});
    } else {
      multiply(x, r, c, StridedA<T>{{x.columns, 1, pitch()}}, StridedB<T>{{x.y, 1, all}});
    }
  }

  template <class SourceA, class SourceB>
  void multiply(const Operands& x, Part r, Part c, const SourceA& a, const SourceB& b) const {
    gemm<T>(r, c, k, blocks, a, b, x.out, x.buffer_a, x.buffer_b);
  }
};

// The product as the operator sees it: x and y of the convolution, per image and group.
template <class T>
struct ConvViews {
  const Gather& g;
  int64_t x_image, y_image, x_group, y_group, w_group;

  explicit ConvViews(const Gather& gather) : g(gather) {
    const int64_t in_area = g.h.size * g.w.size, out_area = g.positions();
    x_image = g.channels * g.groups * in_area;
    y_image = g.out_channels * g.groups * out_area;
    x_group = g.nhwc ? g.channels : g.channels * in_area;
    y_group = g.nhwc ? g.out_channels : g.out_channels * out_area;
    w_group = g.out_channels * g.reduction();
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
