// One thread's rectangle of one matrix product, around the register tile: C[m][n] = A[m][k] * B[k][n], then
// bias and ReLU. Two ways, by what repays packing B:
//   blocks    a block of B is packed and stays in L2, a tile's rows of A in L1 while they meet all of it
//   streamed  few rows: B stays where it is, the first tile of a panel prefetches its rows
// B may have been packed ahead of the call. Threads share nothing here. Bottleneck: FMA; with few rows,
// reading B.
#pragma once

#include "kernels/matmul/cpu/gemm.inl"

namespace profkit {
namespace PROFKIT_ISA {

// B packed ahead: for each block of the reduction, panels over all columns of the matrix.
template <class T>
int64_t packed_ahead_elements(int64_t n, int64_t k) {
  return checked_product(round_up(n, kTileColumns<T>), k);
}

template <class T>
struct Product {
  Strided<T> a, b;
  const T* packed_b;  // null: from b
  int64_t n, k;       // of the whole matrices
  Out<T> out;

  // The panel of column j, steps k0 to k0 + kb, of B packed ahead.
  PROFKIT_INLINE const T* ahead(int64_t j, int64_t k0, int64_t kb) const {
    return packed_b + k0 * round_up(n, kTileColumns<T>) + j * kb;
  }
};

template <class T>
void pack_ahead(T* to, const Strided<T>& b, Part columns, int64_t n, int64_t k, int64_t kc) {
  constexpr int panel = kTileColumns<T>;
  for (int64_t pc = 0; pc < k; pc += kc) {
    const int64_t kb = smaller(kc, k - pc);
    T* block = to + pc * round_up(n, panel) + columns.begin * kb;
    pack_panels<T, panel>(block, kb * panel, b, columns.begin, pc, columns.size(), kb);
  }
}

// Steps of the reduction, of k from k0, at whose end a whole panel of a matrix in place would lie behind it.
template <class T>
int64_t unsafe_steps(const Product<T>& x, int64_t j, int64_t k0, int64_t k) {
  // Elements of the matrix from (j, p) on: the columns of the last row, and all rows between.
  const int64_t missing = kTileColumns<T> - (x.n - j);
  if (missing <= 0) return 0;
  const int64_t rows = ceil_div(missing, x.n);  // that the panel of row p reaches into
  return smaller(k, larger(0, k0 + k - (x.k - rows)));
}

// Where the panels of one block of B are, for tiles that read A in place.
template <class T>
struct PanelsOfB {
  const Product<T>& x;
  T* buffer;  // packed panels, columns from `begin`
  int64_t begin, k0, k;
  bool in_place;

  PanelsOfB(const Product<T>& product, T* to, Part columns, int64_t first_step, int64_t steps, bool stays)
      : x(product),
        buffer(to),
        begin(columns.begin),
        k0(first_step),
        k(steps),
        in_place(stays && !x.packed_b) {
    constexpr int width = kTileColumns<T>;
    if (x.packed_b) return;
    if (!in_place) pack_panels<T, width>(buffer, k * width, x.b, begin, k0, columns.size(), k);
    for (int64_t j = begin; in_place && j < columns.end; j += width) {
      const int64_t tail = unsafe_steps(x, j, k0, k);
      if (tail == 0) continue;
      pack_panel<T, width>(packed(j) + (k - tail) * width, x.b, j, k0 + k - tail, smaller(width, x.n - j),
                           tail);
    }
  }

  PROFKIT_INLINE T* packed(int64_t j) const { return buffer + (j - begin) * k; }
  PROFKIT_INLINE const T* panel(int64_t j) const { return x.packed_b ? x.ahead(j, k0, k) : packed(j); }

  PROFKIT_INLINE InPlaceTile<T> tile(int64_t i, int64_t j) const {
    constexpr int width = kTileColumns<T>;
    const T* a = x.a.at(i, k0);
    if (!in_place) {
      return {k, 0, a, x.a.across_stride, panel(j), width, nullptr};
    }
    const int64_t tail = unsafe_steps(x, j, k0, k);
    return {k, tail, a, x.a.across_stride, x.b.at(j, k0), x.b.along_stride, packed(j) + (k - tail) * width};
  }
};

// Tiles of rows of a transposed A that are packed together: its lines of memory hold rows of several.
constexpr int kTilesAtOnce = 8;

// [step][rows] becomes a panel [step][kTileRows] per tile; what a last one lacks is zero.
template <class T>
void pack_transposed_rows(T* to, const Strided<T>& a, int64_t row, int64_t rows, int64_t k0, int64_t k) {
  const int64_t whole = rows / kTileRows;
  for (int64_t p = 0; p < k; ++p) {
    const T* from = a.at(row, k0 + p);
    for (int line = 0; line < kTilesAtOnce * kTileRows; line += 64 / static_cast<int>(sizeof(T))) {
      __builtin_prefetch(from + kRowsAhead * a.along_stride + line);
    }
    T* target = to + p * kTileRows;
    for (int64_t tile = 0; tile < whole; ++tile, from += kTileRows, target += k * kTileRows) {
      memcpy(target, from, kTileRows * sizeof(T));
    }
  }
  const int64_t done = whole * kTileRows;
  if (done < rows) pack_panel<T, kTileRows>(to + done * k, a, row + done, k0, rows - done, k);
}

// A tile's rows of A stay in L1 while it goes over the columns, of which a block, packed, stays in L2.
// `b_in_place`: B, whose columns are adjacent, is not packed.
template <class T>
void multiply_by_blocks(const Product<T>& x, Part rows, Part columns, const Blocks& blocks, bool b_in_place,
                        T* buffer_a, T* buffer_b) {
  constexpr int width = kTileColumns<T>;
  const bool is_transposed = x.a.along_stride != 1;
  for (int64_t jc = columns.begin; jc < columns.end; jc += blocks.nc) {
    const Part block{jc, smaller(jc + blocks.nc, columns.end)};
    for (int64_t pc = 0; pc < x.k; pc += blocks.kc) {
      const int64_t kb = smaller(blocks.kc, x.k - pc);
      const Out<T> out = out_for_step(x.out, pc == 0, pc + kb == x.k);
      const PanelsOfB<T> b(x, buffer_b, block, pc, kb, b_in_place);
      for (int64_t i = rows.begin; i < rows.end; i += kTileRows) {
        const int64_t high = smaller(kTileRows, rows.end - i);
        const int64_t place = (i - rows.begin) % (kTilesAtOnce * kTileRows);  // of its row in buffer_a
        if (is_transposed && place == 0) {
          pack_transposed_rows<T>(buffer_a, x.a, i, smaller(kTilesAtOnce * kTileRows, rows.end - i), pc, kb);
        }
        for (int64_t j = jc; j < block.end; j += width) {
          const int64_t wide = smaller(width, block.end - j);
          if (is_transposed) {
            run_tile<T>(PackedTile<T>{kb, buffer_a + place * kb, b.panel(j)}, out, i, j, high, wide);
          } else {
            run_tile<T>(b.tile(i, j), out, i, j, high, wide);
          }
        }
      }
    }
  }
}

// Rows of a tile with three vectors of B where there are registers for four: what few rows read of B serves
// more of them.
constexpr int kTallRows = kTileVectors == 4 ? 8 : kTileRows;
constexpr int kTallVectors = kTileVectors == 4 ? 3 : kTileVectors;

template <class T, class Feed>
PROFKIT_INLINE void run_streamed(const Feed& tile, const Out<T>& out, int64_t i, int64_t j, int64_t rows,
                                 int64_t columns, int64_t high) {
  if (high <= kTileRows) return run_tile<T>(tile, out, i, j, rows, columns);
  run_tile<T, kTallRows, kTallVectors>(tile, out, i, j, rows, columns);
}

// Few rows: B, whose columns are adjacent, stays where it is; the tiles of one panel find in L1 or L2 what
// the first of them read. Only a last panel of less than whole vectors is packed.
template <class T>
void multiply_streamed(const Product<T>& x, Part rows, Part columns, int64_t kc, T* buffer_b) {
  if (rows.size() == 0) return;
  // Tiles of like heights: one of a row or two would wait for its own sums.
  const int64_t high = ceil_div(rows.size(), ceil_div(rows.size(), kTallRows));
  const int64_t width = (high > kTileRows ? kTallVectors : kTileVectors) * kWidth<T>;
  for (int64_t pc = 0; pc < x.k; pc += kc) {
    const int64_t kb = smaller(kc, x.k - pc);
    const Out<T> out = out_for_step(x.out, pc == 0, pc + kb == x.k);
    for (int64_t j = columns.begin; j < columns.end; j += width) {
      const int64_t wide = smaller(width, columns.end - j);
      const bool whole = wide % kWidth<T> == 0;
      if (!whole) pack_panel<T, kTileColumns<T>>(buffer_b, x.b, j, pc, wide, kb);
      const T* b = whole ? x.b.at(j, pc) : buffer_b;
      const int64_t b_stride = whole ? x.b.along_stride : kTileColumns<T>;
      for (int64_t i = rows.begin; i < rows.end; i += high) {
        const Strided<T> a{x.a.at(i, pc), x.a.across_stride, x.a.along_stride};
        const int64_t tall = smaller(high, rows.end - i);
        if (i == rows.begin) {
          run_streamed<T>(StreamedTile<T, true>{kb, a, b, b_stride}, out, i, j, tall, wide, high);
        } else {
          run_streamed<T>(StreamedTile<T, false>{kb, a, b, b_stride}, out, i, j, tall, wide, high);
        }
      }
    }
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
