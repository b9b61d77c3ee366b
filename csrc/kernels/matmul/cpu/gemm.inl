// GEMM as five loops around the register tile: C[m][n] = A[m][k] * B[k][n], then bias and ReLU.
// Blocks: a panel of B (kc x tile columns) lives in L1, or streams from L2 past wide tiles, the packed block
// of A (mc x kc) in L2, the packed block of B (kc x nc) in L3, or in L2 when A is one block. The sources of A
// and B are policies, so that convolutions can pack straight from the image. One thread runs a whole call on
// its own part of C. Bottleneck: FMA.
#pragma once

#include "kernels/cpu/work.inl"
#include "kernels/matmul/cpu/micro_kernel.inl"
#include "kernels/matmul/cpu/packing.inl"

namespace profkit {
namespace PROFKIT_ISA {

struct Blocks {
  int64_t mc, nc, kc;
};

// The largest block not above `limit` that cuts `total` into equal parts, as a multiple of `unit`.
PROFKIT_INLINE int64_t even_block(int64_t total, int64_t limit, int64_t unit) {
  const int64_t parts = ceil_div(total, larger(limit, unit));
  return smaller(round_up(ceil_div(total, parts), unit), round_up(total, unit));
}

template <class T>
int64_t reduction_block(const CpuBlocking& blocking) {
  return larger(128, blocking.l1d_bytes / 2 / (kTileColumns<T> * static_cast<int64_t>(sizeof(T))));
}

// Steps of the reduction per packed block: as long as half of L2 still holds 256 rows of A, since every block
// reads and writes C again; above 384 nothing was gained.
template <class T>
int64_t packed_reduction_block(const CpuBlocking& blocking) {
  return larger(128, smaller(384, blocking.l2_bytes / 2 / (256 * static_cast<int64_t>(sizeof(T)))));
}

// The requested size, if any, capped at the total; otherwise the policy's.
PROFKIT_INLINE int64_t requested_or(int64_t requested, int64_t total, int64_t unit, int64_t policy) {
  return requested > 0 ? smaller(round_up(requested, unit), round_up(larger(1, total), unit)) : policy;
}

template <class T>
Blocks choose_blocks(int64_t m, int64_t n, int64_t k, const CpuBlocking& blocking) {
  constexpr int64_t size = sizeof(T);
  const CpuBlocks& requested = blocking.requested;
  Blocks blocks;
  blocks.kc = requested_or(requested.kc, k, 1, even_block(k, packed_reduction_block<T>(blocking), 1));
  blocks.mc = requested_or(requested.mc, m, kTileRows,
                           even_block(m, blocking.l2_bytes / 2 / (blocks.kc * size), kTileRows));
  // With A in one block, nothing is gained by a large block of B: keep it in L2, beside A.
  const int64_t b_bytes =
      blocks.mc >= m ? larger(blocking.l2_bytes / 4, blocking.l2_bytes * 3 / 4 - m * blocks.kc * size)
                     : smaller(blocking.l3_bytes / 8, int64_t{4} << 20);
  blocks.nc = requested_or(requested.nc, n, kTileColumns<T>,
                           even_block(n, b_bytes / (blocks.kc * size), kTileColumns<T>));
  return blocks;
}

// The sizes of choose_blocks, as a tuner sees them.
template <class T>
CpuTunables block_tunables(int64_t m, int64_t n, int64_t k, int64_t k_unit, const Blocks& blocks) {
  constexpr int64_t rows = kTileRows, columns = kTileColumns<T>;
  return {{{"mc", &CpuBlocks::mc, rows, round_up(m, rows), blocks.mc},
           {"nc", &CpuBlocks::nc, columns, round_up(n, columns), blocks.nc},
           {"kc", &CpuBlocks::kc, k_unit, k, blocks.kc}},
          3};
}

template <class T>
int64_t packed_a_elements(const Blocks& blocks) {
  return round_up(blocks.mc, kTileRows) * blocks.kc + kPackSlack;
}
template <class T>
int64_t packed_b_elements(const Blocks& blocks) {
  return round_up(blocks.nc, kTileColumns<T>) * blocks.kc + kPackSlack;
}

// Policies. `block` returns packed panels of the requested part, in `buffer` or wherever they already are.
template <class T>
struct StridedA {
  Strided<T> matrix;
  const T* block(T* buffer, int64_t m0, int64_t m, int64_t k0, int64_t k) const {
    pack_panels<T, kTileRows>(buffer, k * kTileRows, matrix, m0, k0, m, k);
    return buffer;
  }
};
template <class T>
struct StridedB {
  Strided<T> matrix;
  const T* block(T* buffer, int64_t n0, int64_t n, int64_t k0, int64_t k) const {
    constexpr int columns = kTileColumns<T>;
    pack_panels<T, columns>(buffer, k * columns, matrix, n0, k0, n, k);
    return buffer;
  }
};
template <class T>
Out<T> out_for_step(const Out<T>& out, bool first, bool last) {
  Out<T> step = out;
  step.accumulate = out.accumulate || !first;
  step.row_bias = first ? out.row_bias : nullptr;
  step.column_bias = first ? out.column_bias : nullptr;
  step.relu = out.relu && last;
  return step;
}

template <class T>
void multiply_panels(const T* a, const T* b, int64_t m0, int64_t m, int64_t n0, int64_t n, int64_t k,
                     const Out<T>& out) {
  for (int64_t j = 0; j < n; j += kTileColumns<T>) {
    const int64_t columns = smaller(kTileColumns<T>, n - j);
    for (int64_t i = 0; i < m; i += kTileRows) {
      const PackedTile<T> tile{k, a + i * k, b + j * k};
      run_tile<T>(tile, out, m0 + i, n0 + j, smaller(kTileRows, m - i), columns);
    }
  }
}

// Computes the rectangle rows x columns of the whole product.
template <class T, class SourceA, class SourceB>
void gemm(Part rows, Part columns, int64_t k, const Blocks& blocks, const SourceA& source_a,
          const SourceB& source_b, const Out<T>& out, T* buffer_a, T* buffer_b) {
  for (int64_t jc = columns.begin; jc < columns.end; jc += blocks.nc) {
    const int64_t nb = smaller(blocks.nc, columns.end - jc);
    for (int64_t pc = 0; pc < k; pc += blocks.kc) {
      const int64_t kb = smaller(blocks.kc, k - pc);
      const T* b = source_b.block(buffer_b, jc, nb, pc, kb);
      const Out<T> step = out_for_step(out, pc == 0, pc + kb == k);
      for (int64_t ic = rows.begin; ic < rows.end; ic += blocks.mc) {
        const int64_t mb = smaller(blocks.mc, rows.end - ic);
        const T* a = source_a.block(buffer_a, ic, mb, pc, kb);
        multiply_panels(a, b, ic, mb, jc, nb, kb, step);
      }
    }
  }
}

// How threads share an m x n result: a grid of parts, as square as balance allows.
struct Grid {
  int64_t rows, columns;

  // The thread's part of `count` rows, cut at multiples of `unit`; of columns alike.
  Part rows_of(int64_t count, int64_t unit, int64_t thread) const {
    return part_of(count, unit, rows, thread / columns);
  }
  Part columns_of(int64_t count, int64_t unit, int64_t thread) const {
    return part_of(count, unit, columns, thread % columns);
  }
};
PROFKIT_INLINE Grid choose_grid(int64_t m_units, int64_t n_units, int64_t m, int64_t n, int64_t threads) {
  Grid best{1, threads};
  double best_cost = 0;
  for (int64_t rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const int64_t columns = threads / rows;
    // Work of the busiest thread first; among equals, what it must read and pack.
    const double work = double(ceil_div(m_units, rows)) * double(ceil_div(n_units, columns));
    const double reading = double(m) / double(rows) + double(n) / double(columns);
    const double cost = work * (1.0 + 0.05 * reading / double(m + n));
    if (rows == 1 || cost < best_cost) {
      best = {rows, columns};
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
