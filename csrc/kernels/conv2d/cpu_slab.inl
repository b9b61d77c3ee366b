// A slab: the part of the source images that a block of positions reads, with the border made explicit and,
// for planar slabs, columns sorted by their residue modulo the stride. After that, whatever stride and
// padding were, neighbouring positions are neighbours in memory and no code that follows tests a bound.
//   planar   [image][channel][row][residue][column/stride]     positions as vectors (NCHW, weight gradient)
//   pixels   [image][row][column][channel]                     channels as runs (NHWC)
// When nothing is outside and nothing needs sorting, the slab is the image itself and copying costs nothing.
// A thread owns its slab. Bottleneck: cache bandwidth, once per element instead of once per tap.
#pragma once

#include <string.h>

#include "kernels/conv2d/cpu_geometry.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Short copies, mostly of one row: a call to memcpy would cost more than the copy.
template <class T>
PROFKIT_INLINE void copy_row(T* to, const T* from, int64_t count) {
  constexpr int64_t width = kWidth<T>;
  if (count < width) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = from[i];
      asm volatile("" ::: "memory");  // keeps this loop from becoming the very call it avoids
    }
    return;
  }
  for (int64_t i = 0; i + width <= count; i += width) store(to + i, load(from + i));
  store(to + count - width, load(from + count - width));
}
template <class T>
PROFKIT_INLINE void zero_row(T* to, int64_t count) {
  constexpr int64_t width = kWidth<T>;
  int64_t i = 0;
  for (; i + width <= count; i += width) store(to + i, Vec<T>{});
  for (; i < count; ++i) {
    to[i] = 0;
    asm volatile("" ::: "memory");
  }
}

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

  // Vectors may read past the last element that counts: hence the slack.
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

  // Makes channels [channel, channel + channels) of `group` readable for the positions [begin, end).
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

  PROFKIT_INLINE bool is_row_read(int64_t row) const {
    const int64_t step = gather->h.step;
    if (step == 1) return true;
    const int64_t residue = row % step;
    return residue < kKnown ? row_residue[residue].is_read : Residue(gather->h, residue, 0).is_read;
  }

  void fill_planes(T* target, const T* pixels, int64_t channels, int64_t first_row, int64_t last_row) const {
    const Gather& g = *gather;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t r = first_row; r <= last_row; ++r) {
        if (!is_row_read(r)) continue;
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

  PROFKIT_INLINE void fill_row(T* row, const T* line) const {
    const Axis& axis = gather->w;
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
    for (int64_t r = first_row; r <= last_row; ++r) {
      if (!is_row_read(r)) continue;
      T* row = target + r * row_stride;
      const int64_t from_row = r + g.h.lowest();
      if (from_row < 0 || from_row >= g.h.size) {
        memset(row, 0, static_cast<size_t>(row_stride) * sizeof(T));
        continue;
      }
      memset(row, 0, static_cast<size_t>(inner * column_stride) * sizeof(T));
      copy_pixels(row + inner * column_stride, pixels + from_row * source_row + (low + inner) * source_column,
                  outer - inner, channels);
      memset(row + outer * column_stride, 0,
             static_cast<size_t>((g.w.length() - outer) * column_stride) * sizeof(T));
    }
  }

  void copy_pixels(T* to, const T* from, int64_t count, int64_t channels) const {
    if (!gather->nhwc) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t j = 0; j < count; ++j) to[j * column_stride + c] = from[c * source_channel + j];
      }
    } else if (source_column == column_stride) {
      memcpy(to, from, static_cast<size_t>(count * channels) * sizeof(T));
    } else {
      for (int64_t j = 0; j < count; ++j) {
        memcpy(to + j * column_stride, from + j * source_column, static_cast<size_t>(channels) * sizeof(T));
      }
    }
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
