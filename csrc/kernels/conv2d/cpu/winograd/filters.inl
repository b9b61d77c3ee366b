// Filters of Winograd's convolution at the points, as panels of the register tile:
// [group][point][panel][channel of the reduction][tile columns]. Made once per call, or ahead of all calls;
// threads share the work by (group, panel, channel). Bottleneck: writing Side^2 / Taps^2 times the weights.
#pragma once

#include "kernels/conv2d/cpu/winograd/images.inl"
#include "kernels/conv2d/cpu/winograd/transforms.inl"

namespace profkit {
namespace PROFKIT_ISA {

// cpu/kernels.cpp accepts no larger stride: 16 phases, as of AlexNet's 11x11 filters.
constexpr int64_t kWinogradMostStride = 4;

// What the transforms are for: tiles of `side`, `taps` per axis after the split into phases of the stride.
struct WinogradSize {
  int64_t side, taps, stride;

  int64_t points() const { return side * side; }
  int64_t results() const { return side - taps + 1; }
};

template <class T>
struct WinogradFilters {
  T* data;
  int64_t reduction, panels, point_stride, group_stride;

  WinogradFilters(const Gather& g, const WinogradSize& size, Arena& arena) {
    reduction = g.channels * size.stride * size.stride;
    panels = ceil_div(g.out_channels, kTileColumns<T>);
    // One more cache line, to avoid set conflicts between points.
    point_stride = panels * reduction * kTileColumns<T> + 64 / static_cast<int64_t>(sizeof(T));
    group_stride = checked_product(point_stride, size.points());
    data = arena.take<T>(group_stride, g.groups);
  }

  size_t bytes(const Gather& g) const {
    return static_cast<size_t>(checked_product(checked_product(group_stride, g.groups), sizeof(T)));
  }
  PROFKIT_INLINE const T* panel(int64_t group, int64_t point, int64_t column) const {
    return data + group * group_stride + point * point_stride + column * reduction;
  }

  template <int Side, int Taps>
  void make(const profkit_conv2d_params& p, const Gather& g, const WinogradSize& size, const void* weights,
            int threads, int thread) {
    constexpr int64_t lanes = kWidth<T>, columns = kTileColumns<T>;
    const Part mine = part_of(g.groups * panels * reduction, 1, threads, thread);
    constexpr int64_t most = Taps * kWinogradMostStride;
    alignas(64) T taps[Taps * Taps * lanes], transposed[most * most * lanes];
    for (int64_t index = mine.begin; index < mine.end; ++index) {
      const int64_t group = index / reduction / panels, first = index / reduction % panels * columns;
      const int64_t channel = index % reduction;
      const Weights<T> w(p, g, weights, group);
      T* to = data + group * group_stride + first * reduction + channel * columns;
      // Vectors without a filter are never multiplied.
      const int64_t held = smaller(columns, g.out_channels - first);
      for (int64_t k = 0; k < held; k += lanes) {
        gather_taps<Taps>(taps, transposed, g, size, w, channel, first + k);
        transform_filter<T, Side, Taps>(taps, to + k, point_stride);
      }
    }
  }

 private:
  // Taps of `lanes` filters at one channel, filters side by side: [tap][lane].
  template <int Taps>
  void gather_taps(T* taps, T* transposed, const Gather& g, const WinogradSize& size, const Weights<T>& w,
                   int64_t channel, int64_t first) const {
    constexpr int64_t width = kWidth<T>;
    const WinogradChannel one(channel, g.channels, size.stride);
    const int64_t lanes = smaller(width, g.out_channels - first);
    // All elements of a filter at a channel lie together, in either direction.
    const int64_t corner = g.h.kernel_first * w.row_stride + g.w.kernel_first;
    const T* from = w.data - corner + first * w.result_stride + one.channel * w.source_stride;
    pack_transposed<T, width>(transposed, from, w.result_stride, lanes, g.taps());
    for (int64_t i = 0; i < Taps; ++i) {
      for (int64_t j = 0; j < Taps; ++j) {
        // Phases may have fewer taps than the transform takes.
        const int64_t th = i * size.stride + one.phase_h, tw = j * size.stride + one.phase_w;
        const T* tap = transposed + (corner + w.offset(g, 0, th, tw)) * width;
        store(taps + (i * Taps + j) * width, th < g.h.taps && tw < g.w.taps ? load(tap) : Vec<T>{});
      }
    }
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
