// Weight gradient with few channels on one side: dw[out channel][filter element]. Rows of a tile are out
// channels, read from dy in place, in NCHW and NHWC; columns are filter elements (tap row, tap column,
// channel), packed as panels from a copy of the pixels with their border. So three channels and a 5x5 kernel
// fill vectors as 75 columns, and dy, by far the larger side, is never packed. A thread owns a rectangle of
// out channels x filter elements and sums over all positions in one order: no partial sums are merged, so
// the bits do not depend on the threads. Bottleneck: FMA, then packing (a vector copy per 8 elements).
#pragma once

#include "kernels/conv2d/cpu/gather/rows.inl"
#include "kernels/conv2d/cpu/weight_gradient/position_tiles.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct WeightColumnsWorker;

template <class T>
struct WeightColumnsPlan {
  using Worker = WeightColumnsWorker<T>;
  static constexpr int64_t kWritten = 1;  // out channels at least that a thread writes

  Gather gather;
  int64_t tiles;  // of out channels
  int64_t kc;     // positions per block
  Grid grid;
  int64_t pixel_row, pixel_image;  // strides of the copy
  int64_t slab_elements, panel_elements, row_elements, sum_elements;
  T *slabs, *panels, *sums;
  PositionRun* runs;
  int64_t* positions;

  WeightColumnsPlan(const Gather& g, int threads, const CpuBlocking& blocking, Arena& arena) : gather(g) {
    const int64_t all = g.batch * g.positions(), limit = reduction_block<T>(blocking);
    tiles = ceil_div(g.out_channels, kTileRows);
    kc = smaller(all, g.w.grid <= limit ? limit / g.w.grid * g.w.grid : limit);
    kc = requested_or(blocking.requested.kc, all, 1, kc);
    grid =
        choose_grid(tiles, ceil_div(g.reduction(), kTileColumns<T>), g.out_channels, g.reduction(), threads);
    pixel_row = g.w.length() * g.channels;
    pixel_image = g.h.length() * pixel_row;
    const int64_t images = smaller(g.batch, (kc + g.positions() - 2) / g.positions() + 1);
    slab_elements = round_up(images * pixel_image + kPackSlack, 64);
    row_elements = round_up(g.reduction(), kTileColumns<T>);
    panel_elements = round_up(kc * row_elements + kPackSlack, 64);
    sum_elements = g.out_channels * row_elements;
    slabs = arena.take<T>(slab_elements, threads);
    panels = arena.take<T>(panel_elements, threads);
    sums = arena.take<T>(sum_elements, g.groups);
    runs = arena.take<PositionRun>(kc, threads);
    positions = arena.take<int64_t>(kc, threads);
  }

  // Of the products, which threads share.
  int64_t rows() const { return tiles; }
  int64_t columns() const { return gather.reduction(); }
  CpuTunables tunables() const {
    return {{{"kc", &CpuBlocks::kc, kc % gather.w.grid == 0 ? gather.w.grid : 1,
              gather.batch * gather.positions(), kc}},
            1};
  }
};

template <class T>
struct WeightColumnsWorker {
  const WeightColumnsPlan<T>& plan;
  const Gather& g;
  const T *x, *dy;
  T *pixels, *panels;
  PositionRun* runs;
  int64_t* positions;

  WeightColumnsWorker(const WeightColumnsPlan<T>& the_plan, const CpuCall& call, int thread)
      : plan(the_plan), g(the_plan.gather) {
    x = static_cast<const T*>(call.inputs[0]);
    dy = static_cast<const T*>(call.inputs[1]);
    pixels = plan.slabs + thread * plan.slab_elements;
    panels = plan.panels + thread * plan.panel_elements;
    runs = plan.runs + thread * plan.kc;
    positions = plan.positions + thread * plan.kc;
  }

  // The pixels that positions [begin, begin + k) read, channels side by side, with zeros for the border.
  void copy_pixels(int64_t group, int64_t begin, int64_t k) {
    const Position from(g, begin), to(g, begin + k - 1);
    const int64_t all = g.channels * g.groups, length = g.w.length(), area = g.h.size * g.w.size;
    const int64_t inner = smaller(length, -g.w.first), count = smaller(g.w.size, length - inner);
    for (int64_t image = from.image; image <= to.image; ++image) {
      const int64_t low = (image == from.image ? from.qh : 0) * g.h.step;
      const int64_t high = (image == to.image ? to.qh : g.h.grid - 1) * g.h.step + g.h.last_tap();
      const T* source = x + image * all * area + group * g.channels * (g.nhwc ? 1 : area);
      T* target = pixels + (image - from.image) * plan.pixel_image;
      for (int64_t r = low; r <= high; ++r) {
        T* line = target + r * plan.pixel_row;
        const int64_t row = r + g.h.first;
        if (row < 0 || row >= g.h.size) {
          zero_row(line, plan.pixel_row);
          continue;
        }
        zero_row(line, inner * g.channels);
        copy_line(line + inner * g.channels, source + row * g.w.size * (g.nhwc ? all : 1), count);
        zero_row(line + (inner + count) * g.channels, (length - inner - count) * g.channels);
      }
    }
    Position at(g, begin);
    for (int64_t i = 0; i < k; ++i, at.advance(g)) {
      positions[i] = (at.image - from.image) * plan.pixel_image + at.qh * g.h.step * plan.pixel_row +
                     at.qw * g.w.step * g.channels;
    }
  }

  PROFKIT_INLINE void copy_line(T* to, const T* from, int64_t count) const {
    const int64_t pixel = g.nhwc ? g.channels * g.groups : 1, channel = g.nhwc ? 1 : g.h.size * g.w.size;
    if (pixel == g.channels) return copy_row(to, from, count * g.channels);
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t j = 0; j < count; ++j) to[j * g.channels + c] = from[c * channel + j * pixel];
    }
  }

  // Filter elements `columns` of all positions. Copies run past their piece: what they overwrite is written
  // later, since pieces, positions and panels ascend.
  void pack(Part columns, int64_t k) {
    constexpr int64_t width = kTileColumns<T>;
    const bool whole_rows = g.w.tap_step == 1;
    const int64_t piece = whole_rows ? g.w.taps * g.channels : g.channels;
    T* to = panels;
    for (int64_t j = columns.begin; j < columns.end; j += width, to += k * width) {
      Run pieces[kTileColumns<T>];  // from where in the pixels, to which column
      int64_t count = 0;
      const int64_t end = smaller(j + width, columns.end);
      for (int64_t at = j; at < end;) {
        const int64_t index = at / piece, inside = at % piece;
        const int64_t th = whole_rows ? index : index / g.w.taps, tw = whole_rows ? 0 : index % g.w.taps;
        const int64_t from = th * g.h.tap_step * plan.pixel_row + tw * g.w.tap_step * g.channels + inside;
        const int64_t length = smaller(smaller(piece - inside, end - at), kWidth<T>);
        pieces[count++] = {from, at - j};
        at += length;
      }
      switch (count) {
        case 1:
          copy_pieces<1>(to, k, pieces);
          break;
        case 2:
          copy_pieces<2>(to, k, pieces);
          break;
        case 3:
          copy_pieces<3>(to, k, pieces);
          break;
        case 4:
          copy_pieces<4>(to, k, pieces);
          break;
        default:
          for (int64_t p = 0; p < k; ++p) {
            for (int64_t c = 0; c < count; ++c)
              store(to + p * width + pieces[c].length, load(pixels + positions[p] + pieces[c].offset));
          }
      }
    }
  }

  template <int Count>
  PROFKIT_INLINE void copy_pieces(T* to, int64_t k, const Run* pieces) const {
    const T* from[Count];
    int64_t column[Count];
#pragma GCC unroll 4
    for (int c = 0; c < Count; ++c) {
      from[c] = pixels + pieces[c].offset;
      column[c] = pieces[c].length;
    }
    for (int64_t p = 0; p < k; ++p, to += kTileColumns<T>) {
      const int64_t at = positions[p];
#pragma GCC unroll 4
      for (int c = 0; c < Count; ++c) store(to + column[c], load(from[c] + at));
    }
  }

  // dy is contiguous through an image, and in NHWC through the batch.
  int64_t find_runs(int64_t begin, int64_t k) const {
    const int64_t all = g.out_channels * g.groups, area = g.positions();
    if (g.nhwc) {
      runs[0] = {begin * all, 0, k};
      return 1;
    }
    int64_t count = 0;
    for (int64_t done = 0; done < k;) {
      const int64_t image = (begin + done) / area, pixel = (begin + done) % area;
      const int64_t length = smaller(area - pixel, k - done);
      runs[count++] = {image * all * area + pixel, done, length};
      done += length;
    }
    return count;
  }

  void run(int64_t group, Part mine, Part columns) {
    const int64_t total = g.batch * g.positions();
    Out<T> out{plan.sums + group * plan.sum_elements, plan.row_elements};
    for (int64_t begin = 0; begin < total; begin += plan.kc) {
      const int64_t k = smaller(plan.kc, total - begin);
      copy_pixels(group, begin, k);
      pack(columns, k);
      out.accumulate = begin > 0;
      multiply(group, mine, columns, begin, k, find_runs(begin, k), out);
    }
  }

  void multiply(int64_t group, Part mine, Part columns, int64_t begin, int64_t k, int64_t run_count,
                const Out<T>& out) const {
    constexpr int64_t width = kTileColumns<T>;
    const int64_t all = g.out_channels * g.groups, row_stride = g.nhwc ? 1 : g.positions();
    const T* source = dy + group * g.out_channels * row_stride;
    LinesTile<T> lines;
    AdjacentTile<T> adjacent;
    lines.step = 1;
    adjacent.step = all;
    lines.b_step = adjacent.b_step = width;
    lines.runs = adjacent.runs = runs;
    lines.run_count = adjacent.run_count = run_count;
    const int64_t next = begin + k, ahead = smaller(plan.kc, g.batch * g.positions() - next);
    const int64_t pixel = next % g.positions(), panel_count = ceil_div(columns.size(), width);
    // Elements from `source`: in NCHW as far as the image goes, in NHWC the whole block as one line.
    const int64_t next_at = g.nhwc ? next * all : next / g.positions() * all * g.positions() + pixel;
    const int64_t next_count = g.nhwc ? ahead * all : smaller(ahead, g.positions() - pixel);
    for (int64_t j = columns.begin; j < columns.end; j += width) {
      const int64_t panel = (j - columns.begin) / width;
      lines.b = adjacent.b = panels + (j - columns.begin) * k;
      // Lanes past the last column sum what the copies left there, into padding.
      const int64_t size = smaller(width, round_up(columns.end - j, kWidth<T>));
      for (int64_t t = mine.begin; t < mine.end; ++t) {
        const Part rows = even_tile(g.out_channels, plan.tiles, t);
        if (g.nhwc) {
          adjacent.rows = source + rows.begin;
          prefetch_ahead(source + next_at, 0, 1, next_count, panel * mine.size() + t - mine.begin,
                         panel_count * mine.size());
          run_tile<T>(adjacent, out, rows.begin, j, rows.size(), size);
        } else {
          for (int64_t r = 0; r < rows.size(); ++r) lines.rows[r] = source + (rows.begin + r) * row_stride;
          prefetch_ahead(source + rows.begin * row_stride + next_at, row_stride, rows.size(), next_count,
                         panel, panel_count);
          run_tile<T>(lines, out, rows.begin, j, rows.size(), size);
        }
      }
    }
  }

  // Out channels `mine`, from (tap, channel) to (channel, tap).
  void write(int64_t group, Part mine, T* dw) const {
    const int64_t taps = g.taps();
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const T* from = plan.sums + group * plan.sum_elements + i * plan.row_elements;
      T* to = dw + (group * g.out_channels + i) * g.reduction();
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t c = 0; c < g.channels; ++c) to[c * taps + tap] = from[tap * g.channels + c];
      }
    }
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
