// A slab: the part of the source images that a block of positions reads, with the border made explicit and,
// for planar slabs, columns sorted by their residue modulo the stride. After that, whatever stride and
// padding were, neighbouring positions are neighbours in memory and no code that follows tests a bound.
//   planar   [image][channel][row][residue][column/stride]     positions as vectors (NCHW, weight gradient)
//   pixels   [image][row][column][channel]                     channels as runs (NHWC)
// When nothing is outside and nothing needs sorting, the slab is the image itself and copying costs nothing.
// A thread owns its slab. Bottleneck: cache bandwidth, once per element instead of once per tap.
#pragma once

#include "kernels/conv2d/cpu/gather/geometry.inl"
#include "kernels/conv2d/cpu/gather/rows.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Columns of one residue: `length` of them, of which [inner, outer) exist in the source.
struct Residue {
  bool is_read;  // some tap falls on it; a stride larger than the kernel leaves others out
  int64_t inner, outer;

  Residue() = default;
  Residue(const Axis& axis, int64_t residue, int64_t length) {
    is_read = false;
    for (int64_t t = 0; t < axis.taps; ++t)
      is_read = is_read || (t * axis.tap_step - residue) % axis.step == 0;
    const int64_t start = residue + axis.lowest();
    inner = smaller(length, start < 0 ? ceil_div(-start, axis.step) : 0);
    outer = larger(inner, smaller(length, start < axis.size ? ceil_div(axis.size - start, axis.step) : 0));
  }
};

// Sorts `count` groups of Step neighbours by residue: residues start `length` apart.
template <class T, int Step>
PROFKIT_INLINE void sort_by_residue(T* to, int64_t length, const T* from, int64_t count) {
  for (int64_t j = 0; j < count; ++j) {
#pragma GCC unroll 8
    for (int r = 0; r < Step; ++r) to[r * length + j] = from[j * Step + r];
  }
}

template <class T>
struct Slab {
  static constexpr int64_t kKnown = 8;  // residues worked out once; larger strides are rare
  Residue row_residue[kKnown], column_residue[kKnown];
  const Gather* gather;
  const T* source;
  bool planar;
  bool in_place;
  int64_t source_image, source_channel, source_row, source_column;  // strides
  int64_t residue_length;
  int64_t image_stride, channel_stride, row_stride, column_stride;
  // What is in the slab now.
  const T* base;
  int64_t first_image, first_channel;

  // `most_channels` is how many channels are held at a time. A reader that runs past the end needs a copy's
  // slack.
  Slab(const Gather& g, const void* source_data, bool as_planar, int64_t most_channels,
       bool may_be_in_place = true)
      : gather(&g) {
    const int64_t all = g.channels * g.groups;
    source = static_cast<const T*>(source_data);
    source_image = all * g.h.size * g.w.size;
    source_channel = g.nhwc ? 1 : g.h.size * g.w.size;
    source_row = g.nhwc ? g.w.size * all : g.w.size;
    source_column = g.nhwc ? all : 1;
    planar = as_planar;
    base = nullptr;
    first_image = first_channel = 0;
    if (g.taps() == 0 || g.positions() == 0) {
      in_place = true;
      residue_length = image_stride = channel_stride = row_stride = column_stride = 0;
      return;
    }
    const bool inside = g.h.inside() && g.w.inside();
    in_place = inside && may_be_in_place && (planar ? g.w.step == 1 && !g.nhwc : g.nhwc);
    residue_length = ceil_div(g.w.length(), g.w.step);
    for (int64_t r = 0; r < smaller(kKnown, g.h.step); ++r) row_residue[r] = Residue(g.h, r, 0);
    for (int64_t r = 0; r < smaller(kKnown, g.w.step); ++r)
      column_residue[r] = Residue(g.w, r, residue_length);
    if (in_place) {
      image_stride = source_image;
      channel_stride = source_channel;
      row_stride = source_row;
      column_stride = source_column;
    } else if (planar) {
      column_stride = 1;
      row_stride = residue_length * g.w.step;
      channel_stride = g.h.length() * row_stride;
      image_stride = channel_stride * most_channels;
    } else {
      column_stride = most_channels;
      row_stride = g.w.length() * column_stride;
      channel_stride = 1;
      image_stride = g.h.length() * row_stride;
    }
  }

  // Vectors may read past the last valid element: which is the reason for the slack.
  int64_t elements(int64_t images) const { return in_place ? 0 : images * image_stride + kPackSlack; }

  PROFKIT_INLINE int64_t tap_offset(int64_t th, int64_t tw) const {
    const Gather& g = *gather;
    const int64_t row = th * g.h.tap_step * row_stride, column = tw * g.w.tap_step;
    if (!planar || in_place) return row + column * column_stride;
    return row + column % g.w.step * residue_length + column / g.w.step;
  }
  PROFKIT_INLINE int64_t position_offset(const Position& at) const {
    const Gather& g = *gather;
    const int64_t column = planar ? at.qw : at.qw * g.w.step * column_stride;
    return (at.image - first_image) * image_stride + at.qh * g.h.step * row_stride + column;
  }

  // Fills the slab with channels [channel, channel + channels) of `group` for the positions [begin, end).
  void fill(T* buffer, int64_t begin, int64_t end, int64_t group, int64_t channel, int64_t channels) {
    const Gather& g = *gather;
    const Position from(g, begin), to(g, end - 1);
    first_image = from.image;
    first_channel = channel;
    const int64_t skipped = (group * g.channels + channel) * source_channel;
    if (in_place) {
      base = source + first_image * source_image + skipped + g.h.lowest() * source_row +
             g.w.lowest() * source_column;
      return;
    }
    base = buffer;
    for (int64_t image = from.image; image <= to.image; ++image) {
      const int64_t first_row = image == from.image ? from.qh * g.h.step : 0;
      const int64_t last_row = (image == to.image ? to.qh : g.h.grid - 1) * g.h.step + g.h.last_tap();
      const T* pixels = source + image * source_image + skipped;
      T* target = buffer + (image - first_image) * image_stride;
      planar ? fill_planes(target, pixels, channels, first_row, last_row)
             : fill_pixels(target, pixels, channels, first_row, last_row);
    }
  }

  // Steps to the next row that some tap reads.
  PROFKIT_INLINE void next_row(int64_t& row, int64_t& residue) const {
    const int64_t step = gather->h.step;
    do {
      ++row;
      residue = residue + 1 == step ? 0 : residue + 1;
    } while (!is_read(residue));
  }
  PROFKIT_INLINE bool is_read(int64_t residue) const {
    return residue < kKnown ? row_residue[residue].is_read : Residue(gather->h, residue, 0).is_read;
  }

  void fill_planes(T* target, const T* pixels, int64_t channels, int64_t first_row, int64_t last_row) const {
    const Gather& g = *gather;
    for (int64_t c = 0; c < channels; ++c) {
      // first_row is where a position starts: a multiple of the step, which tap 0 reads.
      for (int64_t r = first_row, residue = 0; r <= last_row; next_row(r, residue)) {
        T* row = target + c * channel_stride + r * row_stride;
        const int64_t from_row = r + g.h.lowest();
        if (from_row < 0 || from_row >= g.h.size) {
          zero_row(row, row_stride);
        } else {
          fill_row(row, pixels + c * source_channel + from_row * source_row);
        }
      }
    }
  }

  // Small strides: the row with its border goes to the stack in one piece, then is sorted without a test.
  PROFKIT_INLINE void fill_row_staged(T* row, const T* line) const {
    constexpr int64_t most = 60 * 8;  // a multiple of 2, 3, 4 and 5
    T stage[most];
    const Axis& axis = gather->w;
    for (int64_t begin = 0; begin < row_stride; begin += most) {
      const int64_t count = smaller(most, row_stride - begin), start = begin + axis.lowest();
      const int64_t inner = smaller(count, larger(0, -start));
      const int64_t outer = larger(inner, smaller(count, axis.size - start));
      zero_row(stage, inner);
      copy_row(stage + inner, line + start + inner, outer - inner);
      zero_row(stage + outer, count - outer);
      const bool whole = count == row_stride;  // mostly: and then no division is needed
      T* to = whole ? row : row + begin / axis.step;
      const int64_t groups = whole ? residue_length : count / axis.step;
      if (axis.step == 2) sort_by_residue<T, 2>(to, residue_length, stage, groups);
      if (axis.step == 3) sort_by_residue<T, 3>(to, residue_length, stage, groups);
      if (axis.step == 4) sort_by_residue<T, 4>(to, residue_length, stage, groups);
      if (axis.step == 5) sort_by_residue<T, 5>(to, residue_length, stage, groups);
    }
  }

  PROFKIT_INLINE void fill_row(T* row, const T* line) const {
    const Axis& axis = gather->w;
    if (axis.step >= 2 && axis.step <= 5 && source_column == 1) return fill_row_staged(row, line);
    for (int64_t residue = 0; residue < axis.step; ++residue, row += residue_length) {
      const Residue r = residue < kKnown ? column_residue[residue] : Residue(axis, residue, residue_length);
      if (!r.is_read) continue;
      const T* from = line + (residue + axis.lowest()) * source_column;
      const int64_t stride = axis.step * source_column;
      zero_row(row, r.inner);
      if (stride == 1) {
        copy_row(row + r.inner, from + r.inner, r.outer - r.inner);
      } else {
        const T* pixel = from + r.inner * stride;
        for (int64_t j = r.inner; j < r.outer; ++j, pixel += stride) row[j] = *pixel;
      }
      zero_row(row + r.outer, residue_length - r.outer);
    }
  }

  void fill_pixels(T* target, const T* pixels, int64_t channels, int64_t first_row, int64_t last_row) const {
    const Gather& g = *gather;
    const int64_t low = g.w.lowest();
    const int64_t inner = smaller(g.w.length(), larger(0, -low));
    const int64_t outer = larger(inner, smaller(g.w.length(), g.w.size - low));
    for (int64_t r = first_row, residue = 0; r <= last_row; next_row(r, residue)) {
      T* row = target + r * row_stride;
      const int64_t from_row = r + g.h.lowest();
      if (from_row < 0 || from_row >= g.h.size) {
        zero_row(row, row_stride);
        continue;
      }
      zero_row(row, inner * column_stride);
      copy_pixels(row + inner * column_stride, pixels + from_row * source_row + (low + inner) * source_column,
                  outer - inner, channels);
      zero_row(row + outer * column_stride, (g.w.length() - outer) * column_stride);
    }
  }

  void copy_pixels(T* to, const T* from, int64_t count, int64_t channels) const {
    if (source_column == column_stride) {
      copy_row(to, from, count * channels);
    } else {
      for (int64_t j = 0; j < count; ++j) {
        copy_row(to + j * column_stride, from + j * source_column, channels);
      }
    }
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
