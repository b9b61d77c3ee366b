// conv2d/native/cpu/skip_padding: forward and input gradient, in NHWC; NCHW images are transposed to NHWC and
// back inside the call (cpu/layout_transpose.inl). Register tiles of positions x result channels read the
// image in place, and only with those taps that fall inside it: nothing is copied, and no product with a zero
// of the padding is made (5x5 on 16x16: 14 % of them; at stride 5: 36 %). Positions with the same taps form a
// class, and tiles are made of one class; what is left of the classes shares tiles that take one pointer per
// tap and position, to zeros where the tap is outside. A thread owns rows of the grid x result channels.
// Bottleneck: FMA; with few channels, short runs.
#pragma once

#include "kernels/conv2d/cpu/layout_transpose.inl"
#include "kernels/conv2d/cpu/tap_classes.inl"

namespace profkit {
namespace PROFKIT_ISA {

struct Stray {
  int64_t source, result;  // of its first tap, inside or not; of its result
  const TapClass *h, *w;
};

// Positions [begin, end) of a block's tables: one class.
struct Piece {
  int64_t begin, end;
  const TapClass *h, *w;
};

template <class T>
struct SkipPaddingPlan {
  Gather gather;
  const profkit_conv2d_params* params;
  Grid grid;
  PackedWeights<T, kTileColumns<T>> weights;
  int64_t source_image, source_row, source_column;
  int64_t block;  // rows of the grid whose classes are gathered together
  int64_t block_positions;
  int64_t write_ahead;  // positions: lines of the result are prefetched so long before they are written
  bool prefetches_between_steps;
  TapClass *h_classes, *w_classes;
  int64_t h_count = 0, w_count = 0;
  T* zeros;
  // Per thread.
  int64_t *sources, *results, *stray_results, *tap_weights;
  Piece* pieces;
  Stray* strays;
  TapRun* runs;
  const T** pixels;

  SkipPaddingPlan(const profkit_conv2d_params& p, const Gather& g, int threads, const CpuBlocking& blocking,
                  Arena& arena)
      : gather(g), params(&p), weights(g, larger(1, g.reduction()), false, arena) {
    source_column = g.channels * g.groups;
    source_row = g.w.size * source_column;
    source_image = g.h.size * source_row;
    const int64_t rows = g.batch * g.h.grid;
    grid = choose_grid(rows, ceil_div(g.out_channels, kTileColumns<T>), rows, g.out_channels, threads);
    // The images of a block are read once per panel of weights and should stay in L2 meanwhile, beside those
    // of the next block and the weights. Blocks are larger, and whole images if possible, where weights that
    // do not fit come from further away with every block, and where small classes must fill tiles.
    constexpr int64_t size = sizeof(T);
    const bool weights_fit = weights.padded * g.reduction() * size <= blocking.l2_bytes / 2;
    const bool one_class = g.h.inside() && g.w.inside();
    const int64_t limit = blocking.l2_bytes / (weights_fit && one_class ? 4 : 2) / size;
    const int64_t per_row = larger(1, source_row * g.h.step);
    const int64_t most = larger(1, smaller(limit / per_row, 4096 / larger(1, g.w.grid)));
    const int64_t unit = most >= g.h.grid ? larger(1, g.h.grid) : 1;
    block =
        requested_or(blocking.requested.rows, rows, 1, even_block(larger(1, rows), most / unit * unit, unit));
    block_positions = block * g.w.grid;
    write_ahead = kTileRows * (96 / larger(1, g.reduction()));
    prefetches_between_steps = g.reduction() >= 64;  // shorter sums were not faster for it
    h_classes = arena.take<TapClass>(g.h.grid);
    w_classes = arena.take<TapClass>(g.w.grid);
    zeros = arena.take<T>(g.channels);
    sources = arena.take<int64_t>(block_positions, threads);
    results = arena.take<int64_t>(block_positions, threads);
    stray_results = arena.take<int64_t>(kTileRows, threads);
    tap_weights = arena.take<int64_t>(g.taps(), threads);
    pieces = arena.take<Piece>(block_positions, threads);
    strays = arena.take<Stray>(block_positions, threads);
    runs = arena.take<TapRun>(g.taps(), threads);
    pixels = arena.take<const T*>(g.taps() * kTileRows, threads);
  }

  CpuTunables tunables() const {
    const int64_t rows = larger(1, gather.batch * gather.h.grid);
    return {{{"rows", &CpuBlocks::rows, 1, rows, block}}, 1};
  }
};

template <class T>
struct SkipPaddingWorker {
  const SkipPaddingPlan<T>& plan;
  const Gather& g;
  const T* source;
  int64_t *sources, *results, *stray_results, *tap_weights;
  Piece* pieces;
  Stray* strays;
  TapRun* runs;
  const T** pixels;
  int64_t piece_count = 0, stray_count = 0;
  // What the next block reads is brought to L2 meanwhile, a few lines per tile: the hardware cannot predict
  // the next rows from the addresses of a class.
  const char *ahead = nullptr, *ahead_end = nullptr;
  int64_t ahead_bytes = 0;

  SkipPaddingWorker(const SkipPaddingPlan<T>& the_plan, const void* image, int thread)
      : plan(the_plan), g(the_plan.gather), source(static_cast<const T*>(image)) {
    sources = plan.sources + thread * plan.block_positions;
    results = plan.results + thread * plan.block_positions;
    stray_results = plan.stray_results + thread * kTileRows;
    tap_weights = plan.tap_weights + thread * g.taps();
    pieces = plan.pieces + thread * plan.block_positions;
    strays = plan.strays + thread * plan.block_positions;
    runs = plan.runs + thread * g.taps();
    pixels = plan.pixels + thread * g.taps() * kTileRows;
  }

  PROFKIT_INLINE int64_t tap_offset(int64_t th, int64_t tw) const {
    return th * g.h.tap_step * plan.source_row + tw * g.w.tap_step * plan.source_column;
  }

  // Panels of weights are the outer loop: each is read from L2 or beyond once per block.
  void run(int64_t channel_group, Part rows, Part columns, const Out<T>& out) {
    for (int64_t begin = rows.begin; begin < rows.end; begin += plan.block) {
      const Part block{begin, smaller(begin + plan.block, rows.end)};
      find_pieces(channel_group, block);
      look_ahead(block, rows, columns);
      for (int64_t j = columns.begin; j < columns.end; j += kTileColumns<T>) {
        const T* b = plan.weights.block(channel_group, 0) + j * g.reduction();
        const int64_t width = smaller(kTileColumns<T>, columns.end - j);
        for (int64_t i = 0; i < piece_count; ++i) run_piece(pieces[i], b, j, width, out);
        run_strays(b, j, width, out);
      }
    }
  }

  void find_pieces(int64_t channel_group, Part block) {
    piece_count = stray_count = 0;
    int64_t end = 0;
    for (int64_t h = 0; h < plan.h_count; ++h) {
      for (int64_t w = 0; w < plan.w_count; ++w) {
        const TapClass &rows = plan.h_classes[h], &columns = plan.w_classes[w];
        const int64_t begin = end, count = find_positions(channel_group, block, rows, columns, begin);
        // Tiles of fewer than 4 of 6 rows wait for weights from L2, if not for their own sums.
        const int64_t rest = count % kTileRows, left = rest * 3 < kTileRows * 2 ? rest : 0;
        end += count - left;
        for (int64_t i = end; i < end + left; ++i) {
          strays[stray_count++] = {sources[i], results[i], &rows, &columns};
        }
        if (end > begin) pieces[piece_count++] = {begin, end, &rows, &columns};
      }
    }
  }

  PROFKIT_INLINE const T* first_read(int64_t row) const {
    const int64_t image = row / g.h.grid, at = row % g.h.grid * g.h.step + g.h.first + g.h.last_tap();
    return source + image * plan.source_image + smaller(larger(at, 0), g.h.size) * plan.source_row;
  }
  void look_ahead(Part block, Part rows, Part columns) {
    const int64_t next = smaller(block.end + plan.block, rows.end);
    ahead = ahead_end = nullptr;
    if (next == block.end) return;
    ahead = reinterpret_cast<const char*>(first_read(block.end));
    ahead_end = reinterpret_cast<const char*>(first_read(next - 1) + plan.source_row);
    const int64_t tiles =
        ceil_div(block.size() * g.w.grid, kTileRows) * ceil_div(columns.size(), kTileColumns<T>);
    ahead_bytes = round_up(ceil_div(ahead_end - ahead, larger(1, tiles)), 64);
  }

  PROFKIT_INLINE void prefetch_ahead() {
    if (ahead >= ahead_end) return;
    const char* to = ahead + ahead_bytes;
    for (; ahead < to; ahead += 64) __builtin_prefetch(ahead, 0, 2);
  }

  // Puts the class's positions in the block into the tables from `begin` on, sources from the first tap of
  // the kernel on, and counts them.
  int64_t find_positions(int64_t channel_group, Part block, const TapClass& h, const TapClass& w,
                         int64_t begin) {
    int64_t count = begin;
    for (int64_t row = block.begin; row < block.end;) {
      const int64_t image = row / g.h.grid, first = image * g.h.grid;
      const int64_t last = smaller(block.end, first + g.h.grid) - first;
      const int64_t from = larger(row - first, h.begin), to = smaller(last, h.end);
      for (int64_t qh = from; qh < to; ++qh) {
        Position at(g, 0);
        at.image = image;
        at.qh = qh;
        at.qw = w.begin;
        int64_t result = result_offset(g, at, channel_group);
        int64_t offset = image * plan.source_image + channel_group * g.channels +
                         (qh * g.h.step + g.h.first) * plan.source_row +
                         (w.begin * g.w.step + g.w.first) * plan.source_column;
        for (int64_t qw = w.begin; qw < w.end; ++qw, ++count) {
          results[count] = result;
          sources[count] = offset;
          result += g.w.out_step * g.out_channels * g.groups;
          offset += g.w.step * plan.source_column;
        }
      }
      row = first + last;
    }
    return count - begin;
  }

  // The class's share of the reduction, counted from its first tap.
  int64_t find_runs(const TapClass& h, const TapClass& w) {
    const bool merged = w.count <= 1 || g.w.tap_step * plan.source_column == g.channels;
    int64_t count = 0;
    for (int64_t th = h.first; w.count && th < h.first + h.count; ++th) {
      for (int64_t tw = w.first; tw < w.first + w.count; tw += merged ? w.count : 1) {
        runs[count++] = {tap_offset(th - h.first, tw - w.first), (th * g.w.taps + tw) * g.channels,
                         merged ? w.count * g.channels : g.channels};
      }
    }
    return count;
  }

  void run_piece(const Piece& piece, const T* b, int64_t j, int64_t columns, const Out<T>& out) {
    PrefetchingClassTile<T> tile;
    tile.runs = runs;
    tile.run_count = find_runs(*piece.h, *piece.w);
    tile.b = b;
    const T* origin = source + (tile.run_count ? tap_offset(piece.h->first, piece.w->first) : 0);
    if constexpr (kMayPrefetchBetweenSteps) {
      if (plan.prefetches_between_steps) return run_prefetching(tile, origin, piece, j, columns, out);
    }
    run_plain(tile, origin, piece, j, columns, out);
  }

  void run_prefetching(PrefetchingClassTile<T>& tile, const T* origin, const Piece& piece, int64_t j,
                       int64_t columns, const Out<T>& out) {
    int64_t prefetch_steps = 0;
    for (int64_t r = 0; r < tile.run_count; ++r) prefetch_steps += runs[r].length / PrefetchQueue<T>::kSteps;
    PrefetchQueue<T>& queue = tile.queue;
    queue.source_bytes = ceil_div(ahead_bytes, larger(1, prefetch_steps));
    queue.rows_at_once = ceil_div(kTileRows, larger(1, prefetch_steps));
    queue.written = out.data + j;
    for (int64_t i = piece.begin; i < piece.end; i += kTileRows) {
      const int64_t rows = smaller(kTileRows, piece.end - i), next = i + rows;
      for (int64_t r = 0; r < rows; ++r) tile.rows[r] = origin + sources[i + r];
      queue.written_rows = results + next;
      queue.written_count = smaller(kTileRows, piece.end - next);
      queue.source = ahead;
      ahead += smaller(ahead_bytes, ahead_end - ahead);
      queue.source_end = ahead;
      run_tile<T>(tile, out, i, j, rows, columns);
    }
  }

  void run_plain(const PrefetchingClassTile<T>& feed, const T* origin, const Piece& piece, int64_t j,
                 int64_t columns, const Out<T>& out) {
    ClassTile<T> tile{{}, feed.runs, feed.run_count, feed.b};
    for (int64_t i = piece.begin; i < piece.end; i += kTileRows) {
      const int64_t rows = smaller(kTileRows, piece.end - i);
      for (int64_t r = 0; r < rows; ++r) {
        tile.rows[r] = origin + sources[i + r];
        // Stores to lines that no cache holds would stall the tiles that follow.
        const int64_t written = smaller(i + r + plan.write_ahead, piece.end - 1);
        __builtin_prefetch(out.data + results[written] + j, 1, 3);
      }
      prefetch_ahead();
      run_tile<T>(tile, out, i, j, rows, columns);
    }
  }

  void run_strays(const T* b, int64_t j, int64_t columns, const Out<T>& out) {
    Out<T> to = out;
    to.row_offset = stray_results;
    for (int64_t i = 0; i < stray_count; i += kTileRows) {
      const int64_t rows = smaller(kTileRows, stray_count - i);
      const StrayTile<T> tile{pixels, tap_weights, find_pixels(strays + i, rows), g.channels, b};
      for (int64_t r = 0; r < rows; ++r) stray_results[r] = strays[i + r].result;
      run_tile<T>(tile, to, 0, j, rows, columns);
    }
  }

  // A pointer per tap that any of these positions needs, and position.
  int64_t find_pixels(const Stray* stray, int64_t rows) {
    int64_t count = 0;
    for (int64_t th = 0; th < g.h.taps; ++th) {
      for (int64_t tw = 0; tw < g.w.taps; ++tw) {
        bool any = false;
        for (int64_t r = 0; r < rows; ++r) {
          const TapClass &h = *stray[r].h, &w = *stray[r].w;
          const bool inside =
              th >= h.first && th < h.first + h.count && tw >= w.first && tw < w.first + w.count;
          pixels[count * kTileRows + r] =
              inside ? source + (stray[r].source + tap_offset(th, tw)) : plan.zeros;
          any = any || inside;
        }
        tap_weights[count] = (th * g.w.taps + tw) * g.channels;
        count += any ? 1 : 0;
      }
    }
    return count;
  }
};

template <class T>
void run_skip_padding(SkipPaddingPlan<T>& plan, const CpuCall& call) {
  const Gather& g = plan.gather;
  const profkit_conv2d_params& p = *plan.params;
  const Ending<T> ending(p, call);
  if (g.positions() == 0) return;
  plan.h_count = find_classes(g.h, plan.h_classes);
  plan.w_count = find_classes(g.w, plan.w_classes);
  for (int64_t c = 0; c < g.channels; ++c) plan.zeros[c] = 0;
  plan.weights.pack_or_take(p, g, call.inputs[1], call.packed, call.threads);
  on_threads(call.threads, [&](int thread) {
    SkipPaddingWorker<T> worker(plan, call.inputs[0], thread);
    const Part rows = plan.grid.rows_of(g.batch * g.h.grid, 1, thread);
    const Part columns = plan.grid.columns_of(g.out_channels, kTileColumns<T>, thread);
    for (int64_t group = 0; group < g.groups; ++group) {
      Out<T> out{static_cast<T*>(call.output), 0, worker.results};
      out.column_bias = ending.bias_of(g, group);
      out.relu = ending.relu;
      worker.run(group, rows, columns, out);
    }
  });
}

template <class T>
void skip_padding_on_pixels(const profkit_conv2d_params& p, const CpuCall& call) {
  for_each_phase<SkipPaddingPlan<T>>(p, call.threads, call.blocking, call.workspace,
                                     [&](SkipPaddingPlan<T>& plan) { run_skip_padding<T>(plan, call); });
}

// Planes: weights are packed once, then images are transposed, multiplied and transposed back, some at a
// time.
template <class T>
struct PlanesPlan {
  int64_t images;
  Arena arena;
  NhwcConvolution<T> nhwc;
  void* packed;
  void* workspace;

  PlanesPlan(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking, void* base)
      : images(NhwcConvolution<T>::images_at_a_time(p, threads, blocking)),
        arena(base),
        nhwc(p, images, arena) {
    packed = arena.take<char>(
        static_cast<int64_t>(packed_weights_bytes<SkipPaddingPlan<T>>(nhwc.params, threads, blocking)));
    size_t most = 0;
    const int64_t counts[] = {images, images ? p.batch % images : 0};
    for (const int64_t count : counts) {
      profkit_conv2d_params some = nhwc.params;
      some.batch = count;
      const size_t bytes =
          for_each_phase<SkipPaddingPlan<T>>(some, threads, blocking, nullptr, [](const auto&) {});
      most = bytes > most ? bytes : most;
    }
    workspace = arena.take<char>(static_cast<int64_t>(most));
  }
};

PROFKIT_INLINE profkit_conv2d_params as_pixels(profkit_conv2d_params p) {
  p.layout = PROFKIT_NHWC;
  return p;
}

template <class T>
struct ConvSkipPadding {
  using Params = profkit_conv2d_params;
  using Plan = SkipPaddingPlan<T>;

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    const auto nothing = [](const auto&) {};
    return p.layout == PROFKIT_NHWC ? for_each_phase<Plan>(p, threads, blocking, nullptr, nothing)
                                    : PlanesPlan<T>(p, threads, blocking, nullptr).arena.used_bytes();
  }

  static void launch(const Params& p, const CpuCall& call) {
    if (p.layout == PROFKIT_NHWC) return skip_padding_on_pixels<T>(p, call);
    const PlanesPlan<T> plan(p, call.threads, call.blocking, call.workspace);
    CpuCall packed = call;
    if (!call.packed && p.direction == PROFKIT_FORWARD) {
      pack_weights_ahead<Plan>(plan.nhwc.params, call.inputs[1], plan.packed, call.threads, call.blocking);
      packed.packed = plan.packed;
    }
    for (int64_t first = 0; first < p.batch; first += plan.images) {
      plan.nhwc.launch(packed, first, smaller(plan.images, p.batch - first), plan.workspace,
                       skip_padding_on_pixels<T>);
    }
  }

  static CpuTunables tunables(const Params& p, int threads, const CpuBlocking& blocking) {
    return phase_tunables<Plan>(as_pixels(p), threads, blocking);
  }
  static size_t packed_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    return packed_weights_bytes<Plan>(as_pixels(p), threads, blocking);
  }
  static void pack(const Params& p, const void* weights, void* packed, int threads,
                   const CpuBlocking& blocking) {
    pack_weights_ahead<Plan>(as_pixels(p), weights, packed, threads, blocking);
  }
};

extern const CpuEntry<profkit_conv2d_params> conv2d_skip_padding;
const CpuEntry<profkit_conv2d_params> conv2d_skip_padding =
    EntryOf<ConvSkipPadding, profkit_conv2d_params>::with_packing();

}  // namespace PROFKIT_ISA
}  // namespace profkit
