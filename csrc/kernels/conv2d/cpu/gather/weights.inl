// Weights as panels for a gather, packed once per call, or ahead of all calls, and shared by all threads.
// Blocks of kc steps of the reduction one after the other; in each, panels of `Panel` result channels:
// [panel][k][Panel]. The reduction runs over (channel, tap) for planar slabs and over (tap, channel) for
// pixel slabs.
#pragma once

#include "kernels/conv2d/cpu/gather/geometry.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T, int Panel>
struct PackedWeights {
  T* data;
  int64_t padded, group_stride, kc;
  bool channel_first;  // (channel, tap)

  PackedWeights(const Gather& g, int64_t block, bool by_channel, Arena& arena) {
    padded = round_up(g.out_channels, Panel);
    group_stride = round_up(padded * g.reduction() + kPackSlack, 16);
    kc = block;
    channel_first = by_channel;
    data = arena.take<T>(group_stride, g.groups);
  }

  size_t bytes(const Gather& g) const {
    return static_cast<size_t>(checked_product(checked_product(group_stride, g.groups), sizeof(T)));
  }

  PROFKIT_INLINE const T* block(int64_t group, int64_t k0) const {
    return data + group * group_stride + k0 * padded;
  }

  // Takes what was packed ahead or, with null, packs now on all threads.
  void pack_or_take(const profkit_conv2d_params& p, const Gather& g, const void* weights, const void* packed,
                    int threads) {
    if (packed) {
      data = static_cast<T*>(const_cast<void*>(packed));  // only read from here on
      return;
    }
    on_threads(threads, [&](int thread) { pack(p, g, weights, threads, thread); });
  }

  // Thread `thread` of `threads` packs its share.
  void pack(const profkit_conv2d_params& p, const Gather& g, const void* weights, int threads, int thread) {
    const int64_t panels = padded / Panel;
    const Part mine = part_of(panels * g.groups, 1, threads, thread);
    for (int64_t index = mine.begin; index < mine.end; ++index) {
      const int64_t group = index / panels, first = index % panels * Panel;
      const Weights<T> w(p, g, weights, group);
      for (int64_t k0 = 0; k0 < g.reduction(); k0 += kc) {
        const int64_t k = smaller(kc, g.reduction() - k0);
        T* to = data + group * group_stride + k0 * padded + first * k;
        pack_block(to, g, w, first, smaller(Panel, g.out_channels - first), k0, k);
      }
    }
  }

 private:
  void pack_block(T* to, const Gather& g, const Weights<T>& w, int64_t first, int64_t lines, int64_t k0,
                  int64_t k) const {
    if (channel_first && w.source_stride == g.taps() && g.w.kernel_step == 1) {
      // Forward: the reduction is the weights' own order. Panels of other threads follow, so there is no
      // running over.
      return pack_lines<T, Panel>(to, w.data + first * w.result_stride + k0, w.result_stride, lines, k);
    }
    if constexpr (Panel % kWidth<T> == 0) {
      const bool whole = k == g.reduction() && w.source_stride == g.taps() && g.w.kernel_step == 1;
      if (!channel_first && whole && lines == Panel) {
        return pack_transposed_filters(to, g, w.data + first * w.result_stride, w.result_stride);
      }
    }
    const int64_t inner = channel_first ? g.taps() : g.channels;
    for (int64_t p = 0; p < k; ++p) {
      const int64_t outer = (k0 + p) / inner, rest = (k0 + p) % inner;
      const int64_t c = channel_first ? outer : rest, tap = channel_first ? rest : outer;
      const T* from = w.data + first * w.result_stride + w.offset(g, c, tap / g.w.taps, tap % g.w.taps);
      for (int64_t line = 0; line < Panel; ++line)
        to[p * Panel + line] = line < lines ? from[line * w.result_stride] : T(0);
    }
  }

  // The whole reduction of Panel filters, which lie as (channel, tap), in the order (tap, channel): squares
  // are transposed in registers, so that every line of memory is read once.
  static void pack_transposed_filters(T* to, const Gather& g, const T* filters, int64_t stride) {
    constexpr int width = kWidth<T>;
    const int64_t taps = g.taps(), k = g.reduction();
    for (int64_t line = 0; line < Panel; line += width, filters += width * stride, to += width) {
      int64_t c = 0, tap = 0;
      for (int64_t p = 0; p < k; p += width) {
        const int64_t count = smaller(width, k - p);
        Vec<T> square[width];
        if (count == width) {
#pragma GCC unroll 16
          for (int i = 0; i < width; ++i) square[i] = load(filters + i * stride + p);
        } else {
          for (int i = 0; i < width; ++i) {
            for (int64_t j = 0; j < width; ++j) square[i][j] = j < count ? filters[i * stride + p + j] : T(0);
          }
        }
        transpose<T>(square);
        for (int64_t i = 0; i < count; ++i) {
          store(to + (tap * g.channels + c) * Panel, square[i]);
          if (++tap < taps) continue;
          tap = 0;
          ++c;
        }
      }
    }
  }
};

// Runs one plan per phase, one after the other in the same workspace; returns the bytes that the largest
// needs.
template <class Plan, class Action>
size_t for_each_phase(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking,
                      void* workspace, const Action& action) {
  size_t most = 0;
  for (int64_t phase = 0; phase < phase_count(p); ++phase) {
    Arena arena(workspace);
    Plan plan(p, phase_gather(p, phase), threads, blocking, arena);
    action(plan);
    most = arena.used_bytes() > most ? arena.used_bytes() : most;
  }
  return most;
}

// Packing ahead is for the forward direction, which inference repeats with the same weights.
template <class Plan>
size_t packed_weights_bytes(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking) {
  if (p.direction != PROFKIT_FORWARD) return 0;
  Arena arena(nullptr);
  const Plan plan(p, forward_gather(p), threads, blocking, arena);
  return plan.weights.bytes(plan.gather);
}
template <class Plan>
void pack_weights_ahead(const profkit_conv2d_params& p, const void* weights, void* packed, int threads,
                        const CpuBlocking& blocking) {
  Arena arena(nullptr);
  Plan plan(p, forward_gather(p), threads, blocking, arena);
  plan.weights.data = static_cast<decltype(plan.weights.data)>(packed);
  plan.weights.pack_or_take(p, plan.gather, weights, nullptr, threads);
}

// What can be requested for all phases: each caps it at its own size.
template <class Plan>
CpuTunables phase_tunables(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking) {
  CpuTunables all = {};
  for_each_phase<Plan>(p, threads, blocking, nullptr, [&](const Plan& plan) {
    const CpuTunables found = plan.tunables();
    for (int i = 0; i < found.count; ++i) {
      const CpuTunable& other = found.list[i];
      CpuTunable& mine = all.list[i];
      if (i >= all.count) {
        mine = other;
        continue;
      }
      mine.unit = mine.unit == other.unit ? mine.unit : 1;
      mine.most = larger(mine.most, other.most);
      mine.chosen = larger(mine.chosen, other.chosen);
    }
    all.count = found.count;
  });
  return all;
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
