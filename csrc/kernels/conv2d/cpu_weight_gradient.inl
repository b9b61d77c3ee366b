// Weight gradient: dw[filter element][out channel] = sum over positions of x * dy. Rows are filter elements
// (channel, tap), read in place from a planar slab: along a row of the grid the positions are contiguous, so
// the reduction is a list of runs. dy is packed as panels of out channels. A thread owns a rectangle of
// filter elements x out channels and sums over all positions in one order: no partial sums are merged, so the
// bits do not depend on the threads. Bottleneck: FMA; for small grids, run switches.
#pragma once

#include "kernels/conv2d/cpu_gather_planar.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct WeightGradientPlan {
  Gather gather;
  int64_t kc;             // positions per block
  int64_t held_channels;  // per slab
  Grid grid;
  int64_t slab_elements, panel_elements, row_elements;
  T *slabs, *panels, *sums;
  Run* runs;
  int64_t* elements;  // offset of each filter element in a slab that starts with channel 0

  WeightGradientPlan(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking, Arena& arena)
      : gather(forward_gather(p)) {
    const Gather& g = gather;
    const int64_t limit = reduction_block<T>(blocking);
    kc = smaller(g.batch * g.positions(), g.w.grid <= limit ? limit / g.w.grid * g.w.grid : limit);
    kc = asked_or(blocking.asked.kc, g.batch * g.positions(), 1, kc);
    grid = choose_grid(ceil_div(g.reduction(), kTileRows), ceil_div(g.out_channels, kTileColumns<T>),
                       g.reduction(), g.out_channels, threads);
    const Slab<T> plane(gather, nullptr, true, 1);
    const int64_t rows = smaller(g.h.length(), (kc / g.w.grid + 1) * g.h.step + g.h.last_tap());
    const int64_t slab_rows = rows * images_touched(g, kc);
    held_channels =
        blocking.l2_bytes / 4 / (slab_rows * larger(1, plane.row_stride) * static_cast<int64_t>(sizeof(T)));
    held_channels = smaller(g.channels, larger(1, held_channels));
    held_channels = asked_or(blocking.asked.channels, g.channels, 1, held_channels);
    const Slab<T> slab(gather, nullptr, true, held_channels);
    slab_elements = round_up(slab.elements(images_touched(g, kc)), 64);
    row_elements = round_up(g.out_channels, kTileColumns<T>);
    panel_elements = round_up(kc * row_elements + kPackSlack, 64);
    slabs = arena.take<T>(slab_elements, threads);
    panels = arena.take<T>(panel_elements, threads);
    sums = arena.take<T>(g.reduction() * row_elements);
    runs = arena.take<Run>(kc, threads);
    elements = arena.take<int64_t>(g.reduction());
    if (elements) find_elements(slab);
  }

  CpuTunables tunables() const {
    const Gather& g = gather;
    return {{{"channels", &CpuBlocks::channels, 1, g.channels, held_channels},
             {"kc", &CpuBlocks::kc, kc % g.w.grid == 0 ? g.w.grid : 1, g.batch * g.positions(), kc}},
            2};
  }

  void find_elements(const Slab<T>& slab) {
    const Gather& g = gather;
    int64_t i = 0;
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t th = 0; th < g.h.taps; ++th) {
        for (int64_t tw = 0; tw < g.w.taps; ++tw)
          elements[i++] = c * slab.channel_stride + slab.tap_offset(th, tw);
      }
    }
  }
};

template <class T>
struct WeightGradientWorker {
  const WeightGradientPlan<T>& plan;
  const Gather& g;
  Slab<T> slab;
  const T* dy;
  T *slab_buffer, *panels;
  Run* runs;

  WeightGradientWorker(const WeightGradientPlan<T>& the_plan, const CpuCall& call, int thread)
      : plan(the_plan), g(the_plan.gather), slab(g, call.inputs[0], true, the_plan.held_channels) {
    dy = static_cast<const T*>(call.inputs[1]);
    slab_buffer = plan.slabs + thread * plan.slab_elements;
    panels = plan.panels + thread * plan.panel_elements;
    runs = plan.runs + thread * plan.kc;
  }

  // dy of positions [begin, begin + k) for out channels `columns`, image by image.
  void pack_dy(int64_t group, Part columns, int64_t begin, int64_t k) {
    constexpr int width = kTileColumns<T>;
    const int64_t all = g.out_channels * g.groups, area = g.positions();
    for (int64_t done = 0; done < k;) {
      const int64_t image = (begin + done) / area, pixel = (begin + done) % area;
      const int64_t length = smaller(area - pixel, k - done);
      const int64_t channel = group * g.out_channels + columns.begin;
      const T* from = dy + image * all * area + (g.nhwc ? pixel * all + channel : channel * area + pixel);
      const Strided<T> matrix{from, g.nhwc ? 1 : area, g.nhwc ? all : 1};
      pack_panels<T, width>(panels + done * width, k * width, matrix, 0, 0, columns.size(), length);
      done += length;
    }
  }

  int64_t find_runs(int64_t begin, int64_t k) const {
    int64_t count = 0;
    for (int64_t done = 0; done < k;) {
      const Position at(g, begin + done);
      const int64_t length = smaller(g.w.grid - at.qw, k - done);
      const int64_t offset =
          (at.image - begin / g.positions()) * slab.image_stride + at.qh * g.h.step * slab.row_stride;
      runs[count++] = {offset + at.qw, length};
      done += length;
    }
    return count;
  }

  // Filter elements [first, last), whose channels the slab holds.
  void multiply(int64_t first, int64_t last, Part columns, int64_t k, int64_t run_count,
                const Out<T>& out) const {
    constexpr int64_t width = kTileColumns<T>;
    const T* origin = slab.base - slab.first_channel * slab.channel_stride;
    RowsTile<T> tile;
    tile.runs = runs;
    tile.run_count = run_count;
    for (int64_t j = columns.begin; j < columns.end; j += width) {
      tile.b = panels + (j - columns.begin) * k;
      for (int64_t i = first; i < last; i += kTileRows) {
        const int64_t rows = smaller(kTileRows, last - i);
        for (int64_t r = 0; r < rows; ++r) tile.rows[r] = origin + plan.elements[i + r];
        run_tile<T>(tile, out, i, j, rows, smaller(width, columns.end - j));
      }
    }
  }

  void run(int64_t group, Part rows, Part columns, T* dw) {
    const int64_t total = g.batch * g.positions(), taps = g.taps();
    Out<T> out{plan.sums, plan.row_elements, nullptr, nullptr, nullptr, nullptr, false, false};
    for (int64_t begin = 0; begin < total; begin += plan.kc) {
      const int64_t k = smaller(plan.kc, total - begin);
      pack_dy(group, columns, begin, k);
      const int64_t run_count = find_runs(begin, k);
      out.accumulate = begin > 0;
      for (int64_t first = rows.begin; first < rows.end;) {
        const int64_t channel = first / taps;
        const int64_t last = smaller(rows.end, (channel + plan.held_channels) * taps);
        slab.fill(slab_buffer, begin, begin + k, group, channel, (last - 1) / taps + 1 - channel);
        multiply(first, last, columns, k, run_count, out);
        first = last;
      }
    }
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        dw[(group * g.out_channels + j) * g.reduction() + i] = plan.sums[i * plan.row_elements + j];
      }
    }
  }
};

template <class T>
void run_weight_gradient(const WeightGradientPlan<T>& plan, const CpuCall& call) {
  const Gather& g = plan.gather;
  on_threads(call.threads, [&](int thread) {
    WeightGradientWorker<T> worker(plan, call, thread);
    const Part rows = part_of(g.reduction(), kTileRows, plan.grid.rows, thread / plan.grid.columns);
    const Part columns =
        part_of(g.out_channels, kTileColumns<T>, plan.grid.columns, thread % plan.grid.columns);
    if (rows.size() == 0 || columns.size() == 0) return;
    for (int64_t group = 0; group < g.groups; ++group) {
      worker.run(group, rows, columns, static_cast<T*>(call.output));
    }
  });
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
