// A gather in NHWC: rows are positions, read in place from the image or a pixel slab through one pointer
// each; columns are result channels (packed weights). Nothing but the border is ever copied, and stores are
// contiguous. A thread owns a rectangle of positions x channels. Bottleneck: FMA; with few channels, short
// runs.
#pragma once

#include "kernels/conv2d/cpu/gather/planar.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct PixelPlan {
  Gather gather;
  const profkit_conv2d_params* params;
  int64_t kc, block;  // steps of the reduction, positions
  Grid grid;
  PackedWeights<T, kTileColumns<T>> weights;
  int64_t slab_elements, table_elements;
  T* slabs;
  int64_t* tables;
  Run* runs;

  PixelPlan(const profkit_conv2d_params& p, const Gather& g, int threads, const CpuBlocking& blocking,
            Arena& arena)
      : gather(g),
        params(&p),
        kc(requested_or(
            blocking.requested.kc, g.reduction(), 1,
            larger(1, even_block(larger(1, g.reduction()), reduction_block<T>(blocking) * 3 / 2, 1)))),
        weights(g, kc, false, arena) {
    const int64_t positions = g.batch * g.positions();
    grid = choose_grid(ceil_div(positions, kTileRows), ceil_div(g.out_channels, kTileColumns<T>), positions,
                       g.out_channels, threads);
    const Slab<T> slab(gather, nullptr, false, g.channels);
    block = requested_or(blocking.requested.positions, positions, kTileRows,
                         positions_per_block(g, slab, blocking));
    slab_elements = round_up(slab.elements(g.positions() ? images_touched(g, block) : 0), 64);
    table_elements = round_up(2 * block, 16);
    slabs = arena.take<T>(slab_elements, threads);
    tables = arena.take<int64_t>(table_elements, threads);
    runs = arena.take<Run>(kc, threads);
  }

  CpuTunables tunables() const {
    const int64_t positions = round_up(larger(1, gather.batch * gather.positions()), kTileRows);
    return {{{"positions", &CpuBlocks::positions, kTileRows, positions, block},
             {"kc", &CpuBlocks::kc, 1, larger(1, gather.reduction()), kc}},
            2};
  }

  // As many rows of the grid, or whole images, as half of L2 holds the sources of.
  static int64_t positions_per_block(const Gather& g, const Slab<T>& slab, const CpuBlocking& blocking) {
    if (g.positions() == 0) return 0;
    const int64_t limit = blocking.l2_bytes / 2 / static_cast<int64_t>(sizeof(T));
    const int64_t row = larger(1, slab.row_stride);
    const int64_t source_rows = limit / row - g.h.last_tap();
    const int64_t rows = larger(1, source_rows / g.h.step);
    if (rows < g.h.grid) return even_block(g.h.grid, rows, 1) * g.w.grid;
    const int64_t images = larger(1, limit / larger(1, g.h.length() * row));
    return smaller(g.batch, smaller(images, larger(1, 1024 / g.positions()))) * g.positions();
  }
};

template <class T>
struct PixelWorker {
  const PixelPlan<T>& plan;
  const Gather& g;
  Slab<T> slab;
  T* slab_buffer;
  int64_t *results, *positions;
  Run* runs;

  PixelWorker(const PixelPlan<T>& the_plan, const void* source, int thread)
      : plan(the_plan), g(the_plan.gather), slab(g, source, false, g.channels) {
    slab_buffer = plan.slabs + thread * plan.slab_elements;
    results = plan.tables + thread * plan.table_elements;
    positions = results + plan.block;
    runs = plan.runs + thread * plan.kc;
  }

  // Steps [k0, k0 + k) of the reduction (tap row, tap column, channel) as contiguous runs.
  int64_t find_runs(int64_t k0, int64_t k) const {
    const bool merged = g.w.taps == 1 || g.w.tap_step * slab.column_stride == g.channels;
    const int64_t inner = merged ? g.channels * g.w.taps : g.channels;
    int64_t count = 0;
    for (int64_t at = k0; at < k0 + k;) {
      const int64_t index = at / inner, inside = at % inner;
      const int64_t th = merged ? index : index / g.w.taps, tw = merged ? 0 : index % g.w.taps;
      const int64_t length = smaller(inner - inside, k0 + k - at);
      runs[count++] = {slab.tap_offset(th, tw) + inside, length};
      at += length;
    }
    return count;
  }

  void run(int64_t group, Part rows, Part columns, const Out<T>& out) {
    constexpr int64_t width = kTileColumns<T>;
    for (int64_t begin = rows.begin; begin < rows.end; begin += plan.block) {
      const int64_t count = smaller(plan.block, rows.end - begin);
      if (g.reduction() > 0) slab.fill(slab_buffer, begin, begin + count, group, 0, g.channels);
      Position at(g, begin);
      for (int64_t i = 0; i < count; ++i, at.advance(g)) {
        results[i] = result_offset(g, at, group);
        positions[i] = slab.position_offset(at);
      }
      if (g.reduction() == 0) zero(count, columns, out);
      for (int64_t k0 = 0; k0 < g.reduction(); k0 += plan.kc) {
        const int64_t kb = smaller(plan.kc, g.reduction() - k0);
        const int64_t run_count = find_runs(k0, kb);
        const Out<T> step = out_for_step(out, k0 == 0, k0 + kb == g.reduction());
        for (int64_t j = columns.begin; j < columns.end; j += width) {
          const T* b = plan.weights.block(group, k0) + j * kb;
          multiply_rows(b, run_count, count, j, smaller(width, columns.end - j), step);
        }
      }
    }
  }

  void multiply_rows(const T* b, int64_t run_count, int64_t count, int64_t j, int64_t columns,
                     const Out<T>& out) const {
    RowsTile<T> tile;
    tile.runs = runs;
    tile.run_count = run_count;
    tile.b = b;
    for (int64_t i = 0; i < count; i += kTileRows) {
      const int64_t rows = smaller(kTileRows, count - i);
      for (int64_t r = 0; r < rows; ++r) tile.rows[r] = slab.base + positions[i + r];
      run_tile<T>(tile, out, i, j, rows, columns);
    }
  }

  void zero(int64_t count, Part columns, const Out<T>& out) const {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = columns.begin; j < columns.end; ++j) out.data[results[i] + j] = 0;
    }
  }
};

template <class T>
void run_pixels(PixelPlan<T>& plan, const CpuCall& call) {
  const Gather& g = plan.gather;
  const profkit_conv2d_params& p = *plan.params;
  const Ending<T> ending(p, call);
  if (g.positions() == 0) return;
  plan.weights.pack_or_take(p, g, call.inputs[1], call.packed, call.threads);
  on_threads(call.threads, [&](int thread) {
    PixelWorker<T> worker(plan, call.inputs[0], thread);
    const Part rows = plan.grid.rows_of(g.batch * g.positions(), kTileRows, thread);
    const Part columns = plan.grid.columns_of(g.out_channels, kTileColumns<T>, thread);
    for (int64_t group = 0; group < g.groups; ++group) {
      Out<T> out{static_cast<T*>(call.output), 0, worker.results};
      out.column_bias = ending.bias_of(g, group);
      out.relu = ending.relu;
      worker.run(group, rows, columns, out);
    }
  });
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
