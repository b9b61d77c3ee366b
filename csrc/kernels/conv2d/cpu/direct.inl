// conv2d/native/cpu/direct: register tiles of out channels x vectors of positions, fed straight from the
// image (or a slab with its border): no panels, no columns, and every sum stays in registers over the whole
// reduction. A vector holds positions of one row of the grid; the vectors of a tile follow each other through
// rows, so that narrow grids fill tiles too. Forward and input gradient in NCHW. A thread owns rows of the
// result. Pays when the reduction is short (few input channels); rows that are not a multiple of the vector
// waste the rest. Bottleneck: FMA, then unaligned loads.
#pragma once

#include "kernels/conv2d/cpu/gather/pixels.inl"

namespace profkit {
namespace PROFKIT_ISA {

// A vector of positions, [first, first + columns) of a row of the grid: where its first tap is in the slab
// and where the row's results start in the output.
struct PositionVector {
  int64_t source, result, first, columns;
};

// A packed, every vector of B read in place at its own base + offset[k].
template <class T, int R, int V>
__attribute__((noinline)) void run_position_vectors(const PositionVector* vectors, const T* a,
                                                    const T* source, const int64_t* offset, int64_t k,
                                                    const Out<T>& out, int64_t i) {
  const T* base[V];
  Out<T> row = out;
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    base[v] = source + vectors[v].source;
    row.data = out.data + vectors[v].result;
    prefetch_result<T, R, 1>(row, i, vectors[v].first);
  }
  Accumulators<T, R, V> sum = {};
  for (int64_t p = 0; p < k; ++p) {
    Vec<T> column[V];
    const int64_t at = offset[p];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) column[v] = load(base[v] + at);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const T left = a[r];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r][v] += left * column[v];
    }
    a += kTileRows;
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    Accumulators<T, R, 1> one;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) one[r][0] = sum[r][v];
    row.data = out.data + vectors[v].result;
    finish<T, R, 1>(one, row, i, vectors[v].first, vectors[v].columns);
  }
}

// The instance for the tile's size, as run_tile's.
template <class T, int R = kTileRows, int V = kTileVectors>
PROFKIT_INLINE void run_direct_tile(const PositionVector* vectors, int64_t count, const T* a, const T* source,
                                    const int64_t* offset, int64_t k, const Out<T>& out, int64_t i,
                                    int64_t rows) {
  if constexpr (V > 1) {
    if (count < V) return run_direct_tile<T, R, V - 1>(vectors, count, a, source, offset, k, out, i, rows);
  }
  if constexpr (R > 1) {
    if (rows < R) return run_direct_tile<T, R - 1, V>(vectors, count, a, source, offset, k, out, i, rows);
  }
  run_position_vectors<T, R, V>(vectors, a, source, offset, k, out, i);
}

template <class T>
struct DirectPlan {
  Gather gather;
  const profkit_conv2d_params* params;
  PackedWeights<T, kTileRows> weights;
  bool in_place_allowed;
  int64_t block;  // rows of the grid, within one image
  int64_t slab_elements, step_elements, block_vectors;
  T* slabs;
  PositionVector* vectors;
  int64_t *steps, *columns;

  DirectPlan(const profkit_conv2d_params& p, const Gather& g, int threads, const CpuBlocking& blocking,
             Arena& arena)
      : gather(g), params(&p), weights(g, larger(1, g.reduction()), true, arena) {
    in_place_allowed = g.w.grid % kWidth<T> == 0;
    const Slab<T> slab(gather, nullptr, true, g.channels, in_place_allowed);
    const int64_t limit = blocking.l2_bytes / 2 / static_cast<int64_t>(sizeof(T));
    const int64_t source_rows = limit / larger(1, slab.row_stride * g.channels) - g.h.last_tap();
    block = requested_or(blocking.requested.rows, g.h.grid, 1,
                         even_block(larger(1, g.h.grid), larger(1, source_rows / g.h.step), 1));
    slab_elements = round_up(slab.elements(1), 64);
    step_elements = round_up(g.reduction(), 16);
    slabs = arena.take<T>(slab_elements, threads);
    steps = arena.take<int64_t>(step_elements);
    columns = arena.take<int64_t>(g.w.grid);
    block_vectors = block * ceil_div(g.w.grid, kWidth<T>);
    vectors = arena.take<PositionVector>(block_vectors, threads);
  }

  CpuTunables tunables() const {
    return {{{"rows", &CpuBlocks::rows, 1, larger(1, gather.h.grid), block}}, 1};
  }
};

template <class T>
struct DirectWorker {
  const DirectPlan<T>& plan;
  const Gather& g;
  Slab<T> slab;
  T* slab_buffer;
  PositionVector* vectors;
  T* output;
  Ending<T> ending;

  DirectWorker(const DirectPlan<T>& the_plan, const CpuCall& call, int thread)
      : plan(the_plan),
        g(the_plan.gather),
        slab(g, call.inputs[0], true, g.channels, the_plan.in_place_allowed),
        slab_buffer(the_plan.slabs + thread * the_plan.slab_elements),
        vectors(the_plan.vectors + thread * the_plan.block_vectors),
        output(static_cast<T*>(call.output)),
        ending(*the_plan.params, call) {}

  // Rows [begin, end) of the grid, counted through the batch, of one image.
  void run(int64_t group, int64_t begin, int64_t end) {
    const int64_t k = g.reduction();
    if (k > 0) slab.fill(slab_buffer, begin * g.w.grid, end * g.w.grid, group, 0, g.channels);
    const int64_t count = find_vectors(group, begin, end);
    Out<T> out{output, g.out_height * g.out_width};
    out.column_offset = g.w.out_step == 1 ? nullptr : plan.columns;
    out.row_bias = ending.bias_of(g, group);
    out.relu = ending.relu;
    for (int64_t i = 0; i < g.out_channels; i += kTileRows) {
      const T* a = plan.weights.block(group, 0) + i * k;
      const int64_t rows = smaller(kTileRows, g.out_channels - i);
      for (int64_t v = 0; v < count; v += kTileVectors) {
        run_direct_tile<T>(vectors + v, smaller(kTileVectors, count - v), a, slab.base, plan.steps, k, out, i,
                           rows);
      }
    }
  }

  int64_t find_vectors(int64_t group, int64_t begin, int64_t end) {
    int64_t count = 0;
    Position at(g, begin * g.w.grid);
    for (int64_t row = begin; row < end; ++row, ++at.qh) {
      const int64_t source = g.reduction() == 0 ? 0 : slab.position_offset(at);
      const int64_t result = result_offset(g, at, group);
      for (int64_t j = 0; j < g.w.grid; j += kWidth<T>) {
        vectors[count++] = {source + j, result, j, smaller(kWidth<T>, g.w.grid - j)};
      }
    }
    return count;
  }
};

template <class T>
void fill_direct_tables(const DirectPlan<T>& plan, const void* source) {
  const Gather& g = plan.gather;
  const Slab<T> slab(g, source, true, g.channels, plan.in_place_allowed);
  int64_t k = 0;
  for (int64_t c = 0; c < g.channels; ++c) {
    for (int64_t th = 0; th < g.h.taps; ++th) {
      for (int64_t tw = 0; tw < g.w.taps; ++tw)
        plan.steps[k++] = c * slab.channel_stride + slab.tap_offset(th, tw);
    }
  }
  for (int64_t q = 0; q < g.w.grid; ++q) plan.columns[q] = q * g.w.out_step;
}

template <class T>
void run_direct(DirectPlan<T>& plan, const CpuCall& call) {
  const Gather& g = plan.gather;
  if (g.positions() == 0) return;
  fill_direct_tables(plan, call.inputs[0]);
  on_threads(call.threads,
             [&](int thread) { plan.weights.pack(*plan.params, g, call.inputs[1], call.threads, thread); });
  on_threads(call.threads, [&](int thread) {
    DirectWorker<T> worker(plan, call, thread);
    const Part rows = part_of(g.batch * g.h.grid, 1, call.threads, thread);
    for (int64_t row = rows.begin; row < rows.end;) {
      const int64_t image_end = (row / g.h.grid + 1) * g.h.grid;
      const int64_t end = smaller(smaller(row + plan.block, image_end), rows.end);
      for (int64_t group = 0; group < g.groups; ++group) worker.run(group, row, end);
      row = end;
    }
  });
}

template <class T>
struct ConvDirect {
  using Params = profkit_conv2d_params;

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    return for_each_phase<DirectPlan<T>>(p, threads, blocking, nullptr, [](const auto&) {});
  }
  static void launch(const Params& p, const CpuCall& call) {
    for_each_phase<DirectPlan<T>>(p, call.threads, call.blocking, call.workspace,
                                  [&](DirectPlan<T>& plan) { run_direct<T>(plan, call); });
  }
  static CpuTunables tunables(const Params& p, int threads, const CpuBlocking& blocking) {
    return phase_tunables<DirectPlan<T>>(p, threads, blocking);
  }
};

extern const CpuEntry<profkit_conv2d_params> conv2d_direct;
const CpuEntry<profkit_conv2d_params> conv2d_direct =
    EntryOf<ConvDirect, profkit_conv2d_params>::with_tunables();

}  // namespace PROFKIT_ISA
}  // namespace profkit
