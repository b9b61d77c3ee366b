// matmul/native/cpu/blocked: a register tile over panels of B, packed or where they lie (cpu/product.inl).
// Threads share the batch when it is long enough, else each owns a rectangle of every C and packs what it
// needs. Very few rows or a single column are too little for tiles and go through cpu/skinny_gemm.inl.
// Bottleneck: FMA; for few rows, reading B.
#pragma once

#include "kernels/matmul/cpu/product.inl"
#include "kernels/matmul/cpu/skinny_gemm.inl"
#include "kernels/matmul/params.h"

namespace profkit {
namespace PROFKIT_ISA {

// Rows of B a multiple of 4 KiB apart share sets of L1 and L2, which hold few of them.
PROFKIT_INLINE bool share_sets(int64_t row_bytes) { return row_bytes % 4096 == 0; }

// With more rows packing B pays off, sooner if its rows are not aligned to cache lines: their vectors span
// two.
PROFKIT_INLINE int64_t most_streamed_rows(int64_t row_bytes) {
  return share_sets(row_bytes) ? 64 : row_bytes % 64 == 0 ? 128 : 32;
}

// Steps of the reduction between two passes over C.
constexpr int64_t kMostSteps = 384;

// Of a packed B: steps of the reduction that repay reading and writing C again, then columns for most of L2.
// Of one that stays in place: steps with which a panel is as large as L1, or, where its rows share sets, as
// many as their ways.
template <class T>
Blocks blocks_of_b(int64_t n, int64_t k, int64_t n_part, bool streams, const CpuBlocking& blocking) {
  constexpr int64_t size = sizeof(T), columns = kTileColumns<T>;
  const CpuBlocks& requested = blocking.requested;
  int64_t most = kMostSteps;
  if (streams) most = share_sets(n * size) ? 96 : larger(128, blocking.l1d_bytes * 4 / 3 / (columns * size));
  Blocks blocks{};
  blocks.kc = requested_or(requested.kc, k, 1, even_block(k, most, 1));
  const int64_t fitting = blocking.l2_bytes * 5 / 8 / (blocks.kc * size);
  blocks.nc = requested_or(requested.nc, n_part, columns, even_block(n_part, fitting, columns));
  return blocks;
}

template <class T>
struct BlockedPlan {
  bool by_batch;
  bool b_in_place;  // and narrow, or in L1
  bool streams;     // B in place for few rows
  Grid grid;
  int64_t m_part, n_part;  // of the busiest thread
  Blocks blocks;
  T* buffer_a;
  T* buffer_b;
  int64_t a_elements, b_elements;
  size_t bytes;

  BlockedPlan(const profkit_matmul_params& p, int threads, const CpuBlocking& blocking, void* workspace) {
    constexpr int64_t columns = kTileColumns<T>, size = sizeof(T);
    by_batch = p.batch >= threads;
    grid = by_batch ? Grid{1, 1}
                    : choose_grid(ceil_div(p.m, kTileRows), ceil_div(p.n, columns), p.m, p.n, threads);
    m_part = largest_part(p.m, kTileRows, grid.rows);
    n_part = largest_part(p.n, columns, grid.columns);
    // A narrow B is one contiguous panel; a wider one may stay where it is if all of it stays in L1.
    b_in_place =
        !p.transpose_a && !p.transpose_b && (p.n <= columns || p.k * p.n <= blocking.l1d_bytes / size);
    streams = !b_in_place && !p.transpose_b && m_part <= most_streamed_rows(p.n * size);
    blocks = blocks_of_b<T>(p.n, p.k, n_part, streams, blocking);
    a_elements = p.transpose_a ? round_up(blocks.kc * kTilesAtOnce * kTileRows + kPackSlack, 64) : 0;
    b_elements = round_up(streams ? blocks.kc * columns + kPackSlack : packed_b_elements<T>(blocks), 64);
    Arena arena(workspace);
    buffer_a = arena.take<T>(a_elements, threads);
    buffer_b = arena.take<T>(b_elements, threads);
    bytes = arena.used_bytes();
  }
};

template <class T>
Strided<T> columns_of_b(const profkit_matmul_params& p, const void* b, int64_t item) {
  return {static_cast<const T*>(b) + item * p.k * p.n, p.transpose_b ? p.k : 1, p.transpose_b ? 1 : p.n};
}

template <class T>
Product<T> product_of(const profkit_matmul_params& p, const CpuCall& call, int64_t item) {
  const T* a = static_cast<const T*>(call.inputs[0]) + item * p.m * p.k;
  T* c = static_cast<T*>(call.output) + item * p.m * p.n;
  const T* bias = p.bias ? static_cast<const T*>(call.inputs[2]) : nullptr;
  const T* packed = static_cast<const T*>(call.packed);
  return {{a, p.transpose_a ? 1 : p.k, p.transpose_a ? p.m : 1},
          columns_of_b<T>(p, call.inputs[1], item),
          packed ? packed + item * packed_ahead_elements<T>(p.n, p.k) : nullptr,
          p.n,
          p.k,
          {c, p.n, nullptr, nullptr, nullptr, bias, false, p.activation == PROFKIT_RELU}};
}

template <class T>
void multiply_part(const BlockedPlan<T>& plan, const Product<T>& x, int thread, Part rows, Part columns) {
  T* buffer_b = plan.buffer_b + thread * plan.b_elements;
  if (plan.streams && !x.packed_b) {
    return multiply_streamed<T>(x, rows, columns, plan.blocks.kc, buffer_b);
  }
  multiply_by_blocks<T>(x, rows, columns, plan.blocks, plan.b_in_place,
                        plan.buffer_a + thread * plan.a_elements, buffer_b);
}

template <class T>
struct MatmulBlocked {
  using Params = profkit_matmul_params;

  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    if (p.n == 1 || is_skinny_gemm<T>(p)) return 0;
    return BlockedPlan<T>(p, threads, blocking, nullptr).bytes;
  }

  static void launch(const Params& p, const CpuCall& call) {
    if (p.n == 1) return single_column_launch<T>(p, call);
    if (is_skinny_gemm<T>(p)) return skinny_gemm_launch<T>(p, call);
    const BlockedPlan<T> plan(p, call.threads, call.blocking, call.workspace);
    on_threads(call.threads, [&](int thread) {
      if (plan.by_batch) {
        const Part items = part_of(p.batch, 1, call.threads, thread);
        for (int64_t item = items.begin; item < items.end; ++item) {
          multiply_part<T>(plan, product_of<T>(p, call, item), thread, {0, p.m}, {0, p.n});
        }
        return;
      }
      const Part rows = plan.grid.rows_of(p.m, kTileRows, thread);
      const Part columns = plan.grid.columns_of(p.n, kTileColumns<T>, thread);
      for (int64_t item = 0; item < p.batch; ++item) {
        multiply_part<T>(plan, product_of<T>(p, call, item), thread, rows, columns);
      }
    });
  }

  static CpuTunables tunables(const Params& p, int threads, const CpuBlocking& blocking) {
    if (p.n == 1 || is_skinny_gemm<T>(p)) return {};
    const BlockedPlan<T> plan(p, threads, blocking, nullptr);
    const CpuTunable steps{"kc", &CpuBlocks::kc, 1, p.k, plan.blocks.kc};
    if (plan.streams) return {{steps}, 1};
    constexpr int64_t columns = kTileColumns<T>;
    return {{{"nc", &CpuBlocks::nc, columns, round_up(plan.n_part, columns), plan.blocks.nc}, steps}, 2};
  }

  static size_t packed_bytes(const Params& p, int, const CpuBlocking&) {
    if (p.n == 1 || is_skinny_gemm<T>(p)) return 0;
    Arena arena(nullptr);
    arena.take<T>(packed_ahead_elements<T>(p.n, p.k), p.batch);
    return arena.used_bytes();
  }

  static void pack(const Params& p, const void* b, void* packed, int threads, const CpuBlocking& blocking) {
    const BlockedPlan<T> plan(p, threads, blocking, nullptr);
    on_threads(threads, [&](int thread) {
      const Part columns = part_of(p.n, kTileColumns<T>, threads, thread);
      for (int64_t item = 0; item < p.batch; ++item) {
        T* to = static_cast<T*>(packed) + item * packed_ahead_elements<T>(p.n, p.k);
        pack_ahead<T>(to, columns_of_b<T>(p, b, item), columns, p.n, p.k, plan.blocks.kc);
      }
    });
  }
};

extern const CpuEntry<profkit_matmul_params> matmul_blocked;
const CpuEntry<profkit_matmul_params> matmul_blocked =
    EntryOf<MatmulBlocked, profkit_matmul_params>::with_packing();

}  // namespace PROFKIT_ISA
}  // namespace profkit
