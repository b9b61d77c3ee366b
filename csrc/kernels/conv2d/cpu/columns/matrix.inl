// The column matrix of im2col and its inverse, col2im: plain data movement, one image at a time.
//   NCHW  columns[(c, kh, kw)][position]     NHWC  columns[position][(kh, kw, c)]
// so that copies are contiguous in both. `pitch` is the distance of the matrix' rows, which lets the images
// of a batch lie side by side (NCHW) or below each other (NHWC). Bottleneck: memory bandwidth.
#pragma once

#include "kernels/conv2d/cpu/gather/geometry.inl"
#include "kernels/conv2d/cpu/gather/rows.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct Columns {
  const Gather& g;
  int64_t pitch;

  Columns(const Gather& gather, int64_t images)
      : g(gather), pitch(gather.nhwc ? gather.reduction() : gather.positions() * images) {}

  // Where image number `index` of the matrix starts.
  PROFKIT_INLINE int64_t image_offset(int64_t index) const {
    return index * g.positions() * (g.nhwc ? pitch : 1);
  }

  // Visits every contiguous piece: action(column offset, image offset, count, image stride), with
  // image offset -1 where the piece is outside the image.
  template <class Action>
  PROFKIT_INLINE void visit(const Action& action) const {
    g.nhwc ? visit_pixels(action) : visit_planes(action);
  }

 private:
  template <class Action>
  PROFKIT_INLINE void visit_planes(const Action& action) const {
    int64_t k = 0;
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t th = 0; th < g.h.taps; ++th) {
        for (int64_t tw = 0; tw < g.w.taps; ++tw, ++k) visit_tap(action, k * pitch, c, th, tw);
      }
    }
  }

  // One row of the matrix: of each row of the grid, positions [inner, outer) lie inside the image.
  template <class Action>
  PROFKIT_INLINE void visit_tap(const Action& action, int64_t to, int64_t c, int64_t th, int64_t tw) const {
    constexpr int64_t outside = -1;
    const int64_t grid = g.w.grid, step = g.w.step, start = g.w.first + tw * g.w.tap_step;
    const int64_t inner = smaller(grid, start < 0 ? ceil_div(-start, step) : 0);
    const int64_t outer =
        larger(inner, smaller(grid, start < g.w.size ? ceil_div(g.w.size - start, step) : 0));
    int64_t row = g.h.first + th * g.h.tap_step;
    for (int64_t qh = 0; qh < g.h.grid; ++qh, row += g.h.step, to += grid) {
      if (row < 0 || row >= g.h.size) {
        action(to, outside, grid, step);
        continue;
      }
      const int64_t line = (c * g.h.size + row) * g.w.size + start;
      if (inner > 0) action(to, outside, inner, step);
      if (outer > inner) action(to + inner, line + inner * step, outer - inner, step);
      if (outer < grid) action(to + outer, outside, grid - outer, step);
    }
  }

  template <class Action>
  PROFKIT_INLINE void visit_pixels(const Action& action) const {
    const int64_t all = g.channels * g.groups;
    for (int64_t qh = 0; qh < g.h.grid; ++qh) {
      for (int64_t qw = 0; qw < g.w.grid; ++qw) {
        int64_t at = (qh * g.w.grid + qw) * pitch;
        for (int64_t th = 0; th < g.h.taps; ++th) {
          const int64_t ih = qh * g.h.step + g.h.first + th * g.h.tap_step;
          for (int64_t tw = 0; tw < g.w.taps; ++tw, at += g.channels) {
            const int64_t iw = qw * g.w.step + g.w.first + tw * g.w.tap_step;
            const bool inside = ih >= 0 && ih < g.h.size && iw >= 0 && iw < g.w.size;
            action(at, inside ? (ih * g.w.size + iw) * all : int64_t{-1}, g.channels, int64_t{1});
          }
        }
      }
    }
  }
};

// `image` is the first channel of the group.
template <class T>
void image_to_columns(const Columns<T>& columns, const T* image, T* matrix) {
  columns.visit([&](int64_t to, int64_t from, int64_t count, int64_t stride) {
    if (from < 0) {
      zero_row(matrix + to, count);
    } else if (stride == 1) {
      copy_row(matrix + to, image + from, count);
    } else {
      for (int64_t i = 0; i < count; ++i) matrix[to + i] = image[from + i * stride];
    }
  });
}

// Adds the matrix to the image: overlapping windows meet here.
template <class T>
void add_columns_to_image(const Columns<T>& columns, const T* matrix, T* image) {
  columns.visit([&](int64_t from, int64_t to, int64_t count, int64_t stride) {
    if (to < 0) return;
    for (int64_t i = 0; i < count; ++i) image[to + i * stride] += matrix[from + i];
  });
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
