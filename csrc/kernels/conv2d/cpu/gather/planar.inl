// A gather in NCHW: rows are result channels (packed weights), columns are positions of the whole batch,
// packed per block from a planar slab that holds only the channels of the current step of the reduction. A
// thread owns a rectangle of channels x positions. Bottleneck: FMA; packing costs about tile columns / 8
// copies per k and panel.
#pragma once

#include "kernels/conv2d/cpu/gather/pack_positions.inl"
#include "kernels/conv2d/cpu/gather/weights.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Whole channels per block where possible: then no channel is laid out twice.
template <class T>
int64_t planar_reduction_block(const Gather& g, const CpuBlocking& blocking) {
  const int64_t limit = reduction_block<T>(blocking), taps = g.taps(), requested = blocking.requested.kc;
  if (requested > 0) return requested_or(requested, g.reduction(), 1, requested);
  if (g.reduction() <= limit * 3 / 2) return larger(1, g.reduction());
  if (taps > limit) return even_block(g.reduction(), limit, 1);
  return even_block(g.channels, limit / taps, 1) * taps;
}

PROFKIT_INLINE int64_t images_touched(const Gather& g, int64_t positions) {
  return smaller(g.batch, (positions + g.positions() - 2) / g.positions() + 1);
}

template <class T>
struct PlanarPlan {
  Gather gather;
  const profkit_conv2d_params* params;
  Blocks blocks;
  Grid grid;
  int64_t held_channels;
  PackedWeights<T, kTileRows> weights;
  int64_t slab_elements, panel_elements;
  T* slabs;
  T* panels;
  int64_t* tables;
  int64_t table_elements;

  PlanarPlan(const profkit_conv2d_params& p, const Gather& g, int threads, const CpuBlocking& blocking,
             Arena& arena)
      : gather(g), params(&p), blocks(plan_blocks(g, threads, blocking)), weights(g, blocks.kc, true, arena) {
    grid = plan_grid(g, threads);
    const int64_t taps = larger(1, g.taps());
    held_channels = smaller(g.channels, blocks.kc % taps == 0 ? blocks.kc / taps : blocks.kc / taps + 2);
    const Slab<T> slab(gather, nullptr, true, held_channels);
    slab_elements = round_up(slab.elements(g.positions() ? images_touched(g, blocks.nc) : 0), 64);
    panel_elements = round_up(packed_b_elements<T>(blocks), 64);
    table_elements = round_up(2 * blocks.nc + blocks.kc, 16);
    slabs = arena.take<T>(slab_elements, threads);
    panels = arena.take<T>(panel_elements, threads);
    tables = arena.take<int64_t>(table_elements, threads);
  }

  static Grid plan_grid(const Gather& g, int threads) {
    const int64_t positions = g.batch * g.positions();
    return choose_grid(ceil_div(g.out_channels, kTileRows), ceil_div(positions, kTileColumns<T>),
                       g.out_channels, positions, threads);
  }
  static Blocks plan_blocks(const Gather& g, int threads, const CpuBlocking& blocking) {
    constexpr int64_t size = sizeof(T), columns = kTileColumns<T>;
    const Grid grid = plan_grid(g, threads);
    Blocks b;
    b.kc = planar_reduction_block<T>(g, blocking);
    b.mc = requested_or(blocking.requested.mc, g.out_channels, kTileRows,
                        even_block(g.out_channels, blocking.l2_bytes / 4 / (b.kc * size), kTileRows));
    const int64_t positions = larger(1, largest_part(g.batch * g.positions(), columns, grid.columns));
    b.nc = requested_or(blocking.requested.nc, positions, columns,
                        even_block(positions, smaller(4096, blocking.l2_bytes / 2 / (b.kc * size)), columns));
    return b;
  }

  CpuTunables tunables() const {
    const int64_t positions =
        larger(1, largest_part(gather.batch * gather.positions(), kTileColumns<T>, grid.columns));
    const int64_t taps = larger(1, gather.taps());
    return block_tunables<T>(gather.out_channels, positions, larger(1, gather.reduction()),
                             blocks.kc % taps == 0 ? taps : 1, blocks);
  }
};

// One thread's part of a planar gather.
template <class T>
struct PlanarWorker {
  const PlanarPlan<T>& plan;
  const Gather& g;
  Slab<T> slab;
  const T* source_end;
  T* slab_buffer;
  T* panel_buffer;
  int64_t *results, *positions, *steps;
  int64_t steps_from = -1;

  PlanarWorker(const PlanarPlan<T>& the_plan, const void* source, int thread)
      : plan(the_plan), g(the_plan.gather), slab(g, source, true, the_plan.held_channels) {
    source_end = slab.source + g.batch * slab.source_image;
    slab_buffer = plan.slabs + thread * plan.slab_elements;
    panel_buffer = plan.panels + thread * plan.panel_elements;
    results = plan.tables + thread * plan.table_elements;
    positions = results + plan.blocks.nc;
    steps = positions + plan.blocks.nc;
  }

  // Offsets in the slab of steps of the reduction, from tap `first` of its first channel on. With whole
  // channels per block they are the same for every block.
  void find_steps(int64_t first) {
    steps_from = first;
    int64_t c = 0, th = first / g.w.taps, tw = first % g.w.taps;
    for (int64_t p = 0; p < plan.blocks.kc; ++p) {
      steps[p] = c * slab.channel_stride + slab.tap_offset(th, tw);
      if (++tw < g.w.taps) continue;
      tw = 0;
      if (++th < g.h.taps) continue;
      th = 0;
      ++c;
    }
  }

  // Columns [begin, end) of the current block for steps [k0, k0 + k) of the reduction, as panels.
  void pack(int64_t group, int64_t begin, int64_t end, int64_t k0, int64_t k) {
    const int64_t taps = g.taps(), channel = k0 / taps, channels = (k0 + k - 1) / taps + 1 - channel;
    slab.fill(slab_buffer, begin, end, group, channel, channels);
    if (k0 % taps != steps_from) find_steps(k0 % taps);
    if (k0 == 0) {
      Position at(g, begin);
      for (int64_t j = 0; j < end - begin; ++j, at.advance(g)) positions[j] = slab.position_offset(at);
    }
    // A slab ends in slack; the image itself does not.
    const int64_t readable = slab.in_place ? source_end - slab.base : INT64_MAX;
    for (int64_t j = 0; j < end - begin; j += kTileColumns<T>) {
      pack_positions<T>(panel_buffer + j * k, slab.base, readable, steps, k, positions + j,
                        smaller(kTileColumns<T>, end - begin - j));
    }
  }

  void run(int64_t group, Part rows, Part columns, const Out<T>& out) {
    const int64_t reduction = g.reduction();
    for (int64_t j = columns.begin; j < columns.end; j += plan.blocks.nc) {
      const int64_t nb = smaller(plan.blocks.nc, columns.end - j);
      Position at(g, j);
      for (int64_t i = 0; i < nb; ++i, at.advance(g)) results[i] = result_offset(g, at, group);
      if (reduction == 0) zero(rows, nb, out);
      for (int64_t k0 = 0; k0 < reduction; k0 += plan.blocks.kc) {
        const int64_t kb = smaller(plan.blocks.kc, reduction - k0);
        pack(group, j, j + nb, k0, kb);
        const Out<T> step = out_for_step(out, k0 == 0, k0 + kb == reduction);
        for (int64_t i = rows.begin; i < rows.end; i += plan.blocks.mc) {
          const T* a = plan.weights.block(group, k0) + i * kb;
          multiply_panels(a, panel_buffer, i, smaller(plan.blocks.mc, rows.end - i), int64_t{0}, nb, kb,
                          step);
        }
      }
    }
  }

  // A phase that no kernel element reaches.
  void zero(Part rows, int64_t count, const Out<T>& out) const {
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      for (int64_t j = 0; j < count; ++j) out.data[out.row(i) + results[j]] = 0;
    }
  }
};

template <class T>
void run_planar(PlanarPlan<T>& plan, const CpuCall& call) {
  const Gather& g = plan.gather;
  const profkit_conv2d_params& p = *plan.params;
  const Ending<T> ending(p, call);
  if (g.positions() == 0) return;
  plan.weights.pack_or_take(p, g, call.inputs[1], call.packed, call.threads);
  on_threads(call.threads, [&](int thread) {
    PlanarWorker<T> worker(plan, call.inputs[0], thread);
    const Part rows = plan.grid.rows_of(g.out_channels, kTileRows, thread);
    const Part columns = plan.grid.columns_of(g.batch * g.positions(), kTileColumns<T>, thread);
    for (int64_t group = 0; group < g.groups; ++group) {
      Out<T> out{static_cast<T*>(call.output), g.out_height * g.out_width};
      out.column_offset = worker.results;
      out.row_bias = ending.bias_of(g, group);
      out.relu = ending.relu;
      worker.run(group, rows, columns, out);
    }
  });
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
