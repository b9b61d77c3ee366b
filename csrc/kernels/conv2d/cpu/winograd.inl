// conv2d/native/cpu/winograd_6x6 and winograd_8x8: Winograd's minimal filtering. Tiles of Side x Side pixels
// become values at Side^2 points, each point is a matrix product [tiles x channels] x [channels x out
// channels], and the results of Side - taps + 1 pixels per axis come back from the points: 2.8 to 6.3 times
// fewer products than taps. Strides become channels (cpu/winograd/images.inl); the input gradient at stride 1
// is the same with rotated weights. A thread owns a rectangle of tiles x out channels, and goes through it by
// blocks whose values stay in the caches. Bottleneck: FMA; with few channels, the transforms.
#pragma once

#include "kernels/conv2d/cpu/winograd/filters.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Tiles of one image: `rows` x `columns` of them; more than one row only if rows are whole.
struct WinogradTiles {
  int64_t image, row, column, rows, columns;
  int64_t count() const { return rows * columns; }
};

template <class T>
struct WinogradPlan {
  static constexpr int64_t kLanes = kWidth<T>;
  const profkit_conv2d_params* params;
  Gather gather;
  WinogradSize size;
  WinogradFilters<T> weights;
  int64_t tiles_h, tiles_w, tiles;
  int64_t row_length, result_length;  // channels of a tile at a point, padded
  int64_t kc, block, rows_at_once;
  Grid grid;
  int64_t value_stride, product_stride, pixel_elements, stage_elements;
  T *values, *products, *pixels, *stages;

  WinogradPlan(const profkit_conv2d_params& p, const WinogradSize& the_size, int threads,
               const CpuBlocking& blocking, Arena& arena)
      : params(&p), gather(phase_gather(p, 0)), size(the_size), weights(gather, size, arena) {
    const Gather& g = gather;
    const int64_t m = size.results(), bytes = sizeof(T);
    tiles_h = ceil_div(g.h.grid, m);
    tiles_w = ceil_div(g.w.grid, m);
    tiles = g.batch * tiles_h * tiles_w;
    row_length = round_up(weights.reduction, kLanes);
    result_length = round_up(g.out_channels, kLanes);
    grid = choose_grid(ceil_div(tiles, kTileRows), weights.panels, tiles, g.out_channels, threads);
    kc = requested_or(blocking.requested.kc, weights.reduction, 1, even_block(weights.reduction, 512, 1));
    block = requested_or(blocking.requested.positions, tiles, kTileRows, tiles_per_block(blocking));
    const int64_t phases = WinogradImages<T>(g, size.stride).whole() ? size.stride * size.stride : 1;
    const int64_t tile_row = (tiles_w * m + size.taps - 1) * m * kLanes * bytes * phases;
    rows_at_once = larger(1, smaller(tiles_h, blocking.l1d_bytes * 3 / 4 / tile_row));
    const int64_t pixel_rows = rows_at_once * m + size.taps - 1, pixel_columns = tiles_w * m + size.taps - 1;
    pixel_elements = checked_product(pixel_rows * kLanes * phases, pixel_columns);
    stage_elements = checked_product(rows_at_once * m * kLanes, tiles_w * m);
    value_stride = avoid_set_conflicts(block * row_length);
    product_stride = avoid_set_conflicts(block * result_length);
    values = arena.take<T>(checked_product(value_stride, size.points()), threads);
    products = arena.take<T>(checked_product(product_stride, size.points()), threads);
    pixels = arena.take<T>(pixel_elements, threads);
    stages = arena.take<T>(stage_elements, threads);
  }

  // Values at Side^2 points are written together: an odd number of cache lines apart they do not evict each
  // other.
  static int64_t avoid_set_conflicts(int64_t elements) {
    constexpr int64_t line = 64 / sizeof(T);
    return (ceil_div(elements, line) | 1) * line;
  }

  // Values and products of a block in L2. With many channels that is too few tiles for a pass over the
  // weights, but then each value is used so often that L3 will do.
  int64_t tiles_per_block(const CpuBlocking& blocking) const {
    const int64_t tile = size.points() * (row_length + result_length) * static_cast<int64_t>(sizeof(T));
    const int64_t wanted = larger(blocking.l2_bytes * 3 / 4 / tile, 48);
    return even_block(largest_part(tiles, kTileRows, grid.rows), wanted, kTileRows);
  }

  CpuTunables tunables() const {
    return {{{"positions", &CpuBlocks::positions, kTileRows, round_up(tiles, kTileRows), block},
             {"kc", &CpuBlocks::kc, 1, weights.reduction, kc}},
            2};
  }
};

template <class T>
struct WinogradWorker {
  static constexpr int64_t kLanes = kWidth<T>;
  const WinogradPlan<T>& plan;
  const Gather& g;
  const WinogradImages<T> images;
  T *values, *products, *pixels, *stage;

  WinogradWorker(const WinogradPlan<T>& the_plan, int thread)
      : plan(the_plan), g(the_plan.gather), images(g, plan.size.stride) {
    values = plan.values + thread * plan.value_stride * plan.size.points();
    products = plan.products + thread * plan.product_stride * plan.size.points();
    pixels = plan.pixels + thread * plan.pixel_elements;
    stage = plan.stages + thread * plan.stage_elements;
  }

  // The tiles from `begin` that can be read as one rectangle.
  WinogradTiles rectangle(int64_t begin, int64_t end) const {
    const int64_t row = begin / plan.tiles_w, column = begin % plan.tiles_w;
    WinogradTiles found{row / plan.tiles_h, row % plan.tiles_h, column, 1, plan.tiles_w - column};
    if (found.columns > end - begin) found.columns = end - begin;
    if (found.columns < plan.tiles_w) return found;
    found.rows = smaller(smaller((end - begin) / plan.tiles_w, plan.tiles_h - found.row), plan.rows_at_once);
    return found;
  }

  template <int Side>
  void read(const T* source, int64_t group, const WinogradTiles& tiles, int64_t first_tile) const {
    const int64_t m = plan.size.results(), overlap = plan.size.taps - 1;
    const WinogradRectangle at{tiles.image, tiles.row * m, tiles.column * m, tiles.rows * m + overlap,
                               tiles.columns * m + overlap};
    T* to = values + first_tile * plan.row_length;
    if (!images.whole()) {
      for (int64_t c = 0; c < plan.row_length; c += kLanes) {
        images.read_lanes(pixels, source, at, group, c);
        transform_tiles<Side>(pixels, at.columns, 1, tiles, to + c);
      }
      return;
    }
    const int64_t stride = plan.size.stride;
    for (int64_t c = 0; c < g.channels; c += kLanes) {
      images.read_phases(pixels, source, at, group, c);
      for (int64_t phase = 0; phase < stride * stride; ++phase) {
        const int64_t corner = phase / stride * stride * at.columns + phase % stride;
        transform_tiles<Side>(pixels + corner * kLanes, at.columns * stride, stride, tiles,
                              to + phase * g.channels + c);
      }
    }
  }

  // Tiles of pixels that are `step` rows and columns apart.
  template <int Side>
  PROFKIT_INLINE void transform_tiles(const T* from, int64_t row_length, int64_t step,
                                      const WinogradTiles& tiles, T* to) const {
    const int64_t m = plan.size.results() * step;
    for (int64_t row = 0; row < tiles.rows; ++row) {
      for (int64_t column = 0; column < tiles.columns; ++column, to += plan.row_length) {
        transform_source<T, Side>(from + (row * row_length + column) * m * kLanes, step * row_length * kLanes,
                                  step * kLanes, to, plan.value_stride);
      }
    }
  }

  void multiply(int64_t group, int64_t count, Part columns) const {
    constexpr int64_t width = kTileColumns<T>;
    RowsTile<T> tile;
    Run run;
    tile.runs = &run;
    tile.run_count = 1;
    for (int64_t point = 0; point < plan.size.points(); ++point) {
      const T* rows = values + point * plan.value_stride;
      Out<T> out{};
      out.data = products + point * plan.product_stride;
      out.row_stride = plan.result_length;
      for (int64_t k0 = 0; k0 < plan.weights.reduction; k0 += plan.kc) {
        run = {k0, smaller(plan.kc, plan.weights.reduction - k0)};
        out.accumulate = k0 > 0;
        for (int64_t j = columns.begin; j < columns.end; j += width) {
          tile.b = plan.weights.panel(group, point, j) + k0 * width;
          for (int64_t i = 0; i < count; i += kTileRows) {
            const int64_t some = smaller(kTileRows, count - i);
            for (int64_t r = 0; r < some; ++r) tile.rows[r] = rows + (i + r) * plan.row_length;
            run_tile<T>(tile, out, i, j, some, smaller(width, plan.result_length - j));
          }
        }
      }
    }
  }

  Vec<T> bias_at(const T* bias, int64_t k) const {
    Vec<T> result{};
    if (!bias) return result;
    if (k + kLanes <= g.out_channels) return load(bias + k);
    for (int64_t lane = 0; lane < g.out_channels - k; ++lane) result[lane] = bias[k + lane];
    return result;
  }

  template <int Side, int Results>
  void write(T* output, int64_t group, const WinogradTiles& tiles, int64_t first_tile, Part columns,
             const T* bias, bool relu) const {
    const int64_t all = g.out_channels * g.groups, area = g.out_height * g.out_width;
    const int64_t first_row = tiles.row * Results, first_column = tiles.column * Results;
    const int64_t height = smaller(tiles.rows * Results, g.h.grid - first_row);
    const int64_t width = smaller(tiles.columns * Results, g.w.grid - first_column);
    const int64_t pixel = first_row * g.out_width + first_column;
    for (int64_t k = columns.begin; k < columns.end; k += kLanes) {
      const int64_t lanes = smaller(kLanes, g.out_channels - k), channel = group * g.out_channels + k;
      const bool in_place = g.nhwc && lanes == kLanes;
      T* corner =
          output + tiles.image * all * area + (g.nhwc ? pixel * all + channel : channel * area + pixel);
      WinogradTarget<T> target;
      target.column_stride = in_place ? all : kLanes;
      target.row_stride = (in_place ? g.out_width : width) * target.column_stride;
      target.bias = bias_at(bias, k);
      target.relu = relu;
      const T* from = products + first_tile * plan.result_length + k;
      for (int64_t row = 0; row < height; row += Results) {
        for (int64_t column = 0; column < width; column += Results, from += plan.result_length) {
          target.data = (in_place ? corner : stage) + row * target.row_stride + column * target.column_stride;
          target.rows = smaller(Results, height - row);
          target.columns = smaller(Results, width - column);
          transform_target<T, Side, Results>(from, plan.product_stride, target);
        }
      }
      if (!in_place) unstage(corner, height, width, lanes);
    }
  }

  void unstage(T* corner, int64_t height, int64_t width, int64_t lanes) const {
    const int64_t area = g.out_height * g.out_width, all = g.out_channels * g.groups;
    if (!g.nhwc && width == g.out_width) {
      return pixels_to_planes(corner, area, stage, height * width, lanes);  // rows follow each other
    }
    for (int64_t y = 0; y < height; ++y) {
      const T* row = stage + y * width * kLanes;
      if (!g.nhwc) {
        pixels_to_planes(corner + y * g.out_width, area, row, width, lanes);
        continue;
      }
      for (int64_t x = 0; x < width; ++x) {
        T* to = corner + (y * g.out_width + x) * all;
        for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = row[x * kLanes + lane];
      }
    }
  }

  template <int Side, int Taps>
  void run(const CpuCall& call, int64_t group, Part tiles, Part columns, const T* bias, bool relu) const {
    constexpr int results = Side - Taps + 1;
    for (int64_t begin = tiles.begin; begin < tiles.end; begin += plan.block) {
      const int64_t end = smaller(begin + plan.block, tiles.end);
      for (int64_t at = begin; at < end;) {
        const WinogradTiles some = rectangle(at, end);
        read<Side>(static_cast<const T*>(call.inputs[0]), group, some, at - begin);
        at += some.count();
      }
      multiply(group, end - begin, columns);
      for (int64_t at = begin; at < end;) {
        const WinogradTiles some = rectangle(at, end);
        write<Side, results>(static_cast<T*>(call.output), group, some, at - begin, columns, bias, relu);
        at += some.count();
      }
    }
  }
};

// Calls action<Side, Taps>() of the size's numbers; cpu/kernels.cpp accepts no others. Two taps (3x3 with
// stride 2) were tried and lost to implicit_gemm: the phases cost what the points save.
template <int Side, class Action>
PROFKIT_INLINE void with_taps(int64_t taps, const Action& action) {
  if (taps == 3) action.template run<Side, 3>();
  if (taps == 4) action.template run<Side, 4>();
  if (taps == 5) action.template run<Side, 5>();
}

template <class T>
struct WinogradLaunch {
  WinogradPlan<T>& plan;
  const profkit_conv2d_params& p;
  const CpuCall& call;

  template <int Side, int Taps>
  void run() const {
    const Gather& g = plan.gather;
    const Ending<T> ending(p, call);
    if (call.packed) {
      plan.weights.data = static_cast<T*>(const_cast<void*>(call.packed));  // only read from here on
    } else {
      on_threads(call.threads, [&](int thread) {
        plan.weights.template make<Side, Taps>(p, g, plan.size, call.inputs[1], call.threads, thread);
      });
    }
    on_threads(call.threads, [&](int thread) {
      const WinogradWorker<T> worker(plan, thread);
      const Part tiles = plan.grid.rows_of(plan.tiles, kTileRows, thread);
      const Part columns = plan.grid.columns_of(g.out_channels, kTileColumns<T>, thread);
      for (int64_t group = 0; group < g.groups; ++group) {
        worker.template run<Side, Taps>(call, group, tiles, columns, ending.bias_of(g, group), ending.relu);
      }
    });
  }
};

template <class T>
struct WinogradPack {
  WinogradPlan<T>& plan;
  const profkit_conv2d_params& p;
  const void* source;
  int threads;

  template <int Side, int Taps>
  void run() const {
    on_threads(threads, [&](int thread) {
      plan.weights.template make<Side, Taps>(p, plan.gather, plan.size, source, threads, thread);
    });
  }
};

template <int Side>
struct ConvWinograd {
  using Params = profkit_conv2d_params;

  template <class T>
  struct Of {
    static WinogradPlan<T> plan_of(const Params& p, int threads, const CpuBlocking& blocking, Arena& arena) {
      return {p, {Side, ceil_div(p.kernel_h, p.stride_h), p.stride_h}, threads, blocking, arena};
    }

    static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
      Arena arena(nullptr);
      plan_of(p, threads, blocking, arena);
      return arena.used_bytes();
    }
    static void launch(const Params& p, const CpuCall& call) {
      Arena arena(call.workspace);
      WinogradPlan<T> plan = plan_of(p, call.threads, call.blocking, arena);
      with_taps<Side>(plan.size.taps, WinogradLaunch<T>{plan, p, call});
    }
    static CpuTunables tunables(const Params& p, int threads, const CpuBlocking& blocking) {
      Arena arena(nullptr);
      return plan_of(p, threads, blocking, arena).tunables();
    }
    // For the forward direction, which inference repeats with the same weights.
    static size_t packed_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
      if (p.direction != PROFKIT_FORWARD) return 0;
      Arena arena(nullptr);
      const WinogradPlan<T> plan = plan_of(p, threads, blocking, arena);
      return plan.weights.bytes(plan.gather);
    }
    static void pack(const Params& p, const void* weights, void* packed, int threads,
                     const CpuBlocking& blocking) {
      Arena arena(nullptr);
      WinogradPlan<T> plan = plan_of(p, threads, blocking, arena);
      plan.weights.data = static_cast<T*>(packed);
      with_taps<Side>(plan.size.taps, WinogradPack<T>{plan, p, weights, threads});
    }
  };
};

extern const CpuEntry<profkit_conv2d_params> conv2d_winograd_6x6, conv2d_winograd_8x8;
const CpuEntry<profkit_conv2d_params> conv2d_winograd_6x6 =
    EntryOf<ConvWinograd<6>::Of, profkit_conv2d_params>::with_packing();
const CpuEntry<profkit_conv2d_params> conv2d_winograd_8x8 =
    EntryOf<ConvWinograd<8>::Of, profkit_conv2d_params>::with_packing();

}  // namespace PROFKIT_ISA
}  // namespace profkit
