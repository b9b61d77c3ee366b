// One thread's rectangle of one matrix product, around the register tile: C[m][n] = A[m][k] * B[k][n], then
// bias and ReLU. Two ways, by what repays packing:
//   packed    blocks of A and B as in cpu_gemm.inl, but a panel of B is packed by the first tile that reads
//   it; in place  rows of A as they lie, for few columns: each element of A is used too seldom to be moved.
// B may have been packed ahead of the call. Threads share nothing here. Bottleneck: FMA; with few rows,
// reading B.
#pragma once

#include "kernels/matmul/cpu_gemm.inl"

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

// Packs a panel of B; where its columns are adjacent, the tile of the first rows does it. Returns the rows
// that are done with. `high`: rows of a tile.
template <class T>
int64_t open_panel(const Product<T>& x, const Out<T>& out, T* panel, const T* a, Part rows, int64_t high,
                   int64_t j, int64_t columns, int64_t k0, int64_t k) {
  constexpr int width = kTileColumns<T>;
  if (columns < width || x.b.across_stride != 1) {
    pack_panel<T, width>(panel, x.b, j, k0, columns, k);
    return 0;
  }
  const int64_t first = smaller(high, rows.size());
  const T* b = x.b.at(j, k0);
  const int64_t stride = x.b.along_stride;
  if (rows.size() <= high) {
    run_tile<T>(FreshTile<T, false>{k, a, b, stride, nullptr}, out, rows.begin, j, first, columns);
  } else {
    run_tile<T>(FreshTile<T, true>{k, a, b, stride, panel}, out, rows.begin, j, first, columns);
  }
  return first;
}

// Panels of `high` rows each, at the pitch of a whole tile.
template <class T>
void pack_rows_of_a(T* to, const Strided<T>& a, Part rows, int64_t high, int64_t k0, int64_t k) {
  if (high == kTileRows) {
    return pack_panels<T, kTileRows>(to, k * kTileRows, a, rows.begin, k0, rows.size(), k);
  }
  for (int64_t i = rows.begin; i < rows.end; i += high, to += k * kTileRows) {
    pack_panel<T, kTileRows>(to, a, i, k0, smaller(high, rows.end - i), k);
  }
}

template <class T>
void multiply_packed(const Product<T>& x, Part rows, Part columns, const Blocks& blocks, T* buffer_a,
                     T* buffer_b) {
  constexpr int width = kTileColumns<T>;
  // Rows a multiple of 4 KiB apart share one set of L1: what a tile asks for ahead of narrow panels would
  // push itself out. Then whole rows of the block are read first.
  const bool ahead_of_tiles = x.b.along_stride * static_cast<int64_t>(sizeof(T)) % 4096 == 0;
  for (int64_t jc = columns.begin; jc < columns.end; jc += blocks.nc) {
    const int64_t j_end = smaller(jc + blocks.nc, columns.end);
    for (int64_t pc = 0; pc < x.k; pc += blocks.kc) {
      const int64_t kb = smaller(blocks.kc, x.k - pc);
      const Out<T> out = out_for_step(x.out, pc == 0, pc + kb == x.k);
      for (int64_t ic = rows.begin; ic < rows.end; ic += blocks.mc) {
        const int64_t i_end = smaller(ic + blocks.mc, rows.end);
        // Few rows make tiles of like heights: one of a row or two would wait for its own sums.
        const int64_t high = ceil_div(i_end - ic, ceil_div(i_end - ic, kTileRows));
        pack_rows_of_a<T>(buffer_a, x.a, {ic, i_end}, high, pc, kb);
        const bool opens = !x.packed_b && ic == rows.begin;
        if (opens && ahead_of_tiles) {
          pack_panels<T, width>(buffer_b, kb * width, x.b, jc, pc, j_end - jc, kb);
        }
        for (int64_t j = jc; j < j_end; j += width) {
          const int64_t wide = smaller(width, j_end - j);
          T* panel = buffer_b + (j - jc) * kb;
          const T* b = x.packed_b ? x.ahead(j, pc, kb) : panel;
          int64_t i = ic;
          if (opens && !ahead_of_tiles) {
            i += open_panel<T>(x, out, panel, buffer_a, rows, high, j, wide, pc, kb);
          }
          for (; i < i_end; i += high) {
            const PackedTile<T> tile{kb, buffer_a + (i - ic) / high * kTileRows * kb, b};
            run_tile<T>(tile, out, i, j, smaller(high, i_end - i), wide);
          }
        }
      }
    }
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

  PROFKIT_INLINE InPlaceTile<T> tile(int64_t i, int64_t j) const {
    constexpr int width = kTileColumns<T>;
    const T* a = x.a.at(i, k0);
    if (!in_place) {
      return {k, 0, a, x.a.across_stride, x.packed_b ? x.ahead(j, k0, k) : packed(j), width, nullptr};
    }
    const int64_t tail = unsafe_steps(x, j, k0, k);
    return {k, tail, a, x.a.across_stride, x.b.at(j, k0), x.b.along_stride, packed(j) + (k - tail) * width};
  }
};

// Every row in place takes an address register, of which x86 has 16 in all; 8 rows keep the FMAs busy.
constexpr int kInPlaceRows = kTileRows < 8 ? kTileRows : 8;

// A tile's rows of A stay in L1 while it goes over the columns. `b_in_place`: B, whose columns are adjacent,
// is not packed either.
template <class T>
void multiply_in_place(const Product<T>& x, Part rows, Part columns, int64_t kc, bool b_in_place,
                       T* buffer_b) {
  constexpr int width = kTileColumns<T>;
  for (int64_t pc = 0; pc < x.k; pc += kc) {
    const int64_t kb = smaller(kc, x.k - pc);
    const Out<T> out = out_for_step(x.out, pc == 0, pc + kb == x.k);
    const PanelsOfB<T> b(x, buffer_b, columns, pc, kb, b_in_place);
    for (int64_t i = rows.begin; i < rows.end; i += kInPlaceRows) {
      const int64_t high = smaller(kInPlaceRows, rows.end - i);
      for (int64_t j = columns.begin; j < columns.end; j += width) {
        run_tile<T, kInPlaceRows>(b.tile(i, j), out, i, j, high, smaller(width, columns.end - j));
      }
    }
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
