// Weight gradient: dw[filter element][out channel] = sum over positions of x * dy. The rows of a tile are
// input channels of one tap, read from x in place, in NCHW and NHWC; only positions at which the tap is
// inside the image are visited, so that a border is neither copied nor multiplied. dy is packed as panels of
// out channels, once per block of positions for all taps. A thread owns tiles (tap, channels) x out channels
// and sums over all positions in one order: no partial sums are merged, so the bits do not depend on the
// threads. Few channels go through cpu/weight_gradient/by_columns.inl. Bottleneck: FMA; for small grids, ends
// of runs.
#pragma once

#include "kernels/conv2d/cpu/weight_gradient/by_columns.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct WeightTapsWorker;

template <class T>
struct WeightTapsPlan {
  using Worker = WeightTapsWorker<T>;
  static constexpr int64_t kWritten = kWidth<T>;  // out channels at least that a thread writes

  Gather gather;
  int64_t tiles;  // that the channels of one tap are cut into
  int64_t kc;     // positions per block
  Grid grid;
  int64_t panel_elements, row_elements, sum_elements;
  T *panels, *sums;
  PositionRun* runs;

  WeightTapsPlan(const Gather& g, int threads, const CpuBlocking& blocking, Arena& arena) : gather(g) {
    const int64_t all = g.batch * g.positions(), limit = positions_per_block(g, blocking);
    tiles = ceil_div(g.channels, kTileRows);
    kc = smaller(all, g.w.grid <= limit ? limit / g.w.grid * g.w.grid : limit);
    kc = requested_or(blocking.requested.kc, all, 1, kc);
    grid = choose_grid(tiles * g.taps(), ceil_div(g.out_channels, kTileColumns<T>), g.reduction(),
                       g.out_channels, threads);
    row_elements = round_up(g.out_channels, kTileColumns<T>);
    panel_elements = round_up(kc * row_elements + kPackSlack, 64);
    sum_elements = g.reduction() * row_elements;
    panels = arena.take<T>(panel_elements, threads);
    sums = arena.take<T>(sum_elements, g.groups);
    runs = arena.take<PositionRun>(kc, threads);
  }

  // Panels may stream from L2: long blocks save passes over the sums, until the block itself leaves L2. In
  // NHWC a tile touches a line of x per position, which only short blocks keep in L1.
  static int64_t positions_per_block(const Gather& g, const CpuBlocking& blocking) {
    const int64_t limit = reduction_block<T>(blocking);
    if (g.nhwc) return limit;
    const int64_t pixel = g.channels * g.h.step * g.w.step + g.out_channels;
    const int64_t room = blocking.l2_bytes / (g.taps() > 1 ? 2 : 1) / static_cast<int64_t>(sizeof(T));
    return larger(limit, smaller(4 * limit, room / pixel));
  }

  // Of the products, which threads share.
  int64_t rows() const { return tiles * gather.taps(); }
  int64_t columns() const { return gather.out_channels; }
  CpuTunables tunables() const {
    const Gather& g = gather;
    return {{{"kc", &CpuBlocks::kc, kc % g.w.grid == 0 ? g.w.grid : 1, g.batch * g.positions(), kc}}, 1};
  }
};

template <class T>
struct WeightTapsWorker {
  const WeightTapsPlan<T>& plan;
  const Gather& g;
  const T *x, *dy;
  int64_t x_image, x_channel, x_row, x_column;  // strides
  T* panels;
  PositionRun* runs;

  WeightTapsWorker(const WeightTapsPlan<T>& the_plan, const CpuCall& call, int thread)
      : plan(the_plan), g(the_plan.gather) {
    x = static_cast<const T*>(call.inputs[0]);
    dy = static_cast<const T*>(call.inputs[1]);
    const int64_t all = g.channels * g.groups;
    x_image = all * g.h.size * g.w.size;
    x_channel = g.nhwc ? 1 : g.h.size * g.w.size;
    x_row = g.nhwc ? g.w.size * all : g.w.size;
    x_column = g.nhwc ? all : 1;
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

  // Where tap (th, tw) reads inside the image, for positions [begin, begin + k).
  int64_t find_runs(int64_t th, int64_t tw, int64_t begin, int64_t k) const {
    const Part inside = inside_of(g.w, tw);
    const int64_t step = g.w.step * x_column, start = (g.w.first + tw * g.w.tap_step) * x_column;
    int64_t count = 0;
    Position at(g, begin);
    for (int64_t done = 0; done < k;) {
      const int64_t length = smaller(g.w.grid - at.qw, k - done);
      const int64_t row = at.qh * g.h.step + g.h.first + th * g.h.tap_step;
      const int64_t left = larger(at.qw, inside.begin), right = smaller(at.qw + length, inside.end);
      if (row >= 0 && row < g.h.size && left < right) {
        const PositionRun run{at.image * x_image + row * x_row + start + left * step, done + left - at.qw,
                              right - left};
        PositionRun* last = runs + larger(0, count - 1);
        if (count > 0 && last->a + last->length * step == run.a && last->b + last->length == run.b) {
          last->length += run.length;
        } else {
          runs[count++] = run;
        }
      }
      done += length;
      at.qw = 0;
      if (++at.qh == g.h.grid) {
        at.qh = 0;
        ++at.image;
      }
    }
    return count;
  }

  // Tiles [first, last) of one tap, whose sums start at out.data.
  void multiply(int64_t group, int64_t first, int64_t last, Part columns, int64_t k, int64_t run_count,
                const Out<T>& out) const {
    constexpr int64_t width = kTileColumns<T>;
    const T* source = x + group * g.channels * x_channel;
    LinesTile<T> lines;
    AdjacentTile<T> adjacent;
    lines.step = adjacent.step = x_column * g.w.step;
    lines.b_step = adjacent.b_step = width;
    lines.runs = adjacent.runs = runs;
    lines.run_count = adjacent.run_count = run_count;
    for (int64_t j = columns.begin; j < columns.end; j += width) {
      lines.b = adjacent.b = panels + (j - columns.begin) * k;
      // Lanes past the last channel sum zeros, into padding.
      const int64_t size = smaller(width, round_up(columns.end - j, kWidth<T>));
      for (int64_t t = first; t < last; ++t) {
        const Part rows = even_tile(g.channels, plan.tiles, t);
        if (g.nhwc) {
          adjacent.rows = source + rows.begin;
          run_tile<T>(adjacent, out, rows.begin, j, rows.size(), size);
        } else {
          for (int64_t r = 0; r < rows.size(); ++r) lines.rows[r] = source + (rows.begin + r) * x_channel;
          run_tile<T>(lines, out, rows.begin, j, rows.size(), size);
        }
      }
    }
  }

  // Sums are [channel][tap][out channel].
  void run(int64_t group, Part mine, Part columns) {
    const int64_t total = g.batch * g.positions();
    for (int64_t begin = 0; begin < total; begin += plan.kc) {
      const int64_t k = smaller(plan.kc, total - begin);
      pack_dy(group, columns, begin, k);
      for (int64_t at = mine.begin; at < mine.end;) {
        const int64_t tap = at / plan.tiles, first = at % plan.tiles;
        const int64_t count = smaller(mine.end - at, plan.tiles - first);
        const int64_t run_count = find_runs(tap / g.w.taps, tap % g.w.taps, begin, k);
        T* sums = plan.sums + group * plan.sum_elements + tap * plan.row_elements;
        Out<T> out{sums, plan.row_elements * g.taps()};
        out.accumulate = begin > 0;
        multiply(group, first, first + count, columns, k, run_count, out);
        at += count;
      }
    }
  }

  // Transposes the sums to weights [out channel][channel][tap].
  void write(int64_t group, Part columns, T* dw) const {
    constexpr int width = kWidth<T>;
    const int64_t reduction = g.reduction(), pitch = plan.row_elements;
    const T* sums = plan.sums + group * plan.sum_elements;
    T* to = dw + group * g.out_channels * reduction;
    for (int64_t j = columns.begin; j < columns.end; j += width) {
      const int64_t count = smaller(width, columns.end - j);
      int64_t i = 0;
      for (; i + width <= reduction; i += width) {
        Vec<T> block[width];
#pragma GCC unroll 16
        for (int r = 0; r < width; ++r) block[r] = load(sums + (i + r) * pitch + j);
        transpose<T>(block);
#pragma GCC unroll 16
        for (int r = 0; r < width; ++r) {
          if (r < count) store(to + (j + r) * reduction + i, block[r]);
        }
      }
      for (; i < reduction; ++i) {
        for (int64_t r = 0; r < count; ++r) to[(j + r) * reduction + i] = sums[i * pitch + j + r];
      }
    }
  }
};

template <class T, class Plan>
void run_weight_gradient(const Plan& plan, const CpuCall& call) {
  const Gather& g = plan.gather;
  on_threads(call.threads, [&](int thread) {
    typename Plan::Worker worker(plan, call, thread);
    const Part mine = plan.grid.rows_of(plan.rows(), 1, thread);
    const Part columns = plan.grid.columns_of(plan.columns(), kTileColumns<T>, thread);
    if (mine.size() == 0 || columns.size() == 0) return;
    for (int64_t group = 0; group < g.groups; ++group) worker.run(group, mine, columns);
  });
  on_threads(call.threads, [&](int thread) {
    const typename Plan::Worker worker(plan, call, thread);
    const Part channels = part_of(g.out_channels, Plan::kWritten, call.threads, thread);
    for (int64_t group = 0; group < g.groups; ++group) {
      worker.write(group, channels, static_cast<T*>(call.output));
    }
  });
}

// Cycles per position, roughly: rows of a tile times its vectors / 2, where a tile of few sums waits for them
// as long as one of eight; and what packing costs.
struct WeightGradientCost {
  static double rows(int64_t count) {
    const int64_t tiles = ceil_div(count, kTileRows);
    double cost = 0;
    for (int64_t t = 0; t < tiles; ++t) cost += double(larger(4, even_tile(count, tiles, t).size()));
    return cost;
  }
  template <class T>
  static double columns(int64_t count) {
    constexpr int64_t width = kTileColumns<T>;
    const int64_t rest = count % width;
    return double(count / width) + (rest == 0 ? 0 : rest <= width - kWidth<T> ? 0.7 : 1.0);
  }
  static double inside(const Axis& axis) {
    int64_t count = 0;
    for (int64_t tap = 0; tap < axis.taps; ++tap) count += inside_of(axis, tap).size();
    return double(count) / double(axis.grid);
  }
  template <class T>
  static bool prefers_columns(const Gather& g) {
    const double dy_packing = (g.nhwc ? 2.0 : 4.0) * double(g.out_channels) / kWidth<T>;
    const double taps =
        inside(g.h) * inside(g.w) * rows(g.channels) * columns<T>(g.out_channels) + dy_packing;
    const double filter = rows(g.out_channels) * columns<T>(g.reduction());
    const double pixels = (g.nhwc ? 0.3 : 1.5) * double(g.channels * g.h.step * g.w.step);
    return filter + 2.0 * double(g.reduction()) / kWidth<T> + pixels < taps;
  }
};

// Makes the plan that suits, in `workspace` or only counting, and hands it to `action`; returns its bytes.
template <class T, class Action>
size_t with_weight_gradient(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking,
                            void* workspace, const Action& action) {
  const Gather g = forward_gather(p);
  Arena arena(workspace);
  if (WeightGradientCost::prefers_columns<T>(g)) {
    action(WeightColumnsPlan<T>(g, threads, blocking, arena));
  } else {
    action(WeightTapsPlan<T>(g, threads, blocking, arena));
  }
  return arena.used_bytes();
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
