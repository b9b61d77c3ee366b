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

template <class T>
struct Slab {
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

  // Whether any tap falls on this residue: skips rows and columns that a stride larger than the kernel leaves
  // out.
  static bool is_read(const Axis& axis, int64_t index) {
    for (int64_t t = 0; t < axis.taps; ++t) {
      if ((index - t * axis.tap_step) % axis.step == 0) return true;
    }
    return false;
  }

  void fill_planes(T* target, const T* pixels, int64_t channels, int64_t first_row, int64_t last_row) const {
    const Gather& g = *gather;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t r = first_row; r <= last_row; ++r) {
        if (g.h.step > 1 && !is_read(g.h, r)) continue;
        T* row = target + c * channel_stride + r * row_stride;
        const int64_t from_row = r + g.h.lowest();
        if (from_row < 0 || from_row >= g.h.size) {
          memset(row, 0, static_cast<size_t>(row_stride) * sizeof(T));
        } else {
          fill_row(row, pixels + c * source_channel + from_row * source_row);
        }
      }
    }
  }

  void fill_row(T* row, const T* line) const {
    const Gather& g = *gather;
    for (int64_t residue = 0; residue < g.w.step; ++residue, row += residue_length) {
      if (g.w.step > 1 && !is_read(g.w, residue)) continue;
      // Column j of this residue is source column start + j * step; [inner, outer) of them exist.
      const int64_t start = residue + g.w.lowest(), step = g.w.step;
      const int64_t inner = smaller(residue_length, start < 0 ? ceil_div(-start, step) : 0);
      const int64_t outer =
          larger(inner, smaller(residue_length, start < g.w.size ? ceil_div(g.w.size - start, step) : 0));
      for (int64_t j = 0; j < inner; ++j) row[j] = 0;
      const T* from = line + start * source_column;
      const int64_t stride = step * source_column;
      if (stride == 1) {
        memcpy(row + inner, from + inner, static_cast<size_t>(outer - inner) * sizeof(T));
      } else {
        for (int64_t j = inner; j < outer; ++j) row[j] = from[j * stride];
      }
      for (int64_t j = outer; j < residue_length; ++j) row[j] = 0;
    }
  }

  void fill_pixels(T* target, const T* pixels, int64_t channels, int64_t first_row, int64_t last_row) const {
    const Gather& g = *gather;
    const int64_t low = g.w.lowest();
    const int64_t inner = smaller(g.w.length(), larger(0, -low));
    const int64_t outer = larger(inner, smaller(g.w.length(), g.w.size - low));
    for (int64_t r = first_row; r <= last_row; ++r) {
      if (g.h.step > 1 && !is_read(g.h, r)) continue;
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
