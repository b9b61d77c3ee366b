// matmul/native/cpu/blocked: packed panels and a register tile (cpu_gemm.inl). Threads share the batch when
// it is long enough, else each owns a rectangle of every C and packs what it needs. Few rows (m below the
// tile) or a single column do not repay packing B and go through cpu_few_rows.inl. Bottleneck: FMA; for few
// rows, reading B.
#pragma once

#include "kernels/matmul/cpu_few_rows.inl"
#include "kernels/matmul/cpu_gemm.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct BlockedPlan {
  bool by_batch;
  Grid grid;
  int64_t m_part, n_part;  // of the busiest thread
  Blocks blocks;
  T* buffer_a;
  T* buffer_b;
  int64_t a_elements, b_elements;
  size_t bytes;

  BlockedPlan(const profkit_matmul_params& p, int threads, const CpuBlocking& blocking, void* workspace) {
    constexpr int64_t columns = kTileColumns<T>;
    by_batch = p.batch >= threads;
    grid = by_batch ? Grid{1, 1}
                    : choose_grid(ceil_div(p.m, kTileRows), ceil_div(p.n, columns), p.m, p.n, threads);
    m_part = largest_part(p.m, kTileRows, grid.rows);
    n_part = largest_part(p.n, columns, grid.columns);
    blocks = choose_blocks<T>(m_part, n_part, p.k, blocking);
    a_elements = round_up(packed_a_elements<T>(blocks), 64);
    b_elements = round_up(packed_b_elements<T>(blocks), 64);
    Arena arena(workspace);
    buffer_a = arena.take<T>(a_elements, threads);
    buffer_b = arena.take<T>(b_elements, threads);
    bytes = arena.used_bytes();
  }
};

template <class T>
struct MatmulOperands {
  Strided<T> a, b;
  T* c;
  const T* bias;

  MatmulOperands(const profkit_matmul_params& p, const CpuCall& call, int64_t item)
      : a{static_cast<const T*>(call.inputs[0]) + item * p.m * p.k, p.transpose_a ? 1 : p.k,
          p.transpose_a ? p.m : 1},
        b{static_cast<const T*>(call.inputs[1]) + item * p.k * p.n, p.transpose_b ? p.k : 1,
          p.transpose_b ? 1 : p.n},
        c(static_cast<T*>(call.output) + item * p.m * p.n),
        bias(p.bias ? static_cast<const T*>(call.inputs[2]) : nullptr) {}
};

template <class T>
void multiply_part(const profkit_matmul_params& p, const BlockedPlan<T>& plan, const MatmulOperands<T>& x,
                   int thread, Part rows, Part columns) {
  const Out<T> out{x.c, p.n, nullptr, nullptr, nullptr, x.bias, false, p.activation == PROFKIT_RELU};
  gemm<T>(rows, columns, p.k, plan.blocks, StridedA<T>{x.a}, StridedB<T>{x.b}, out,
          plan.buffer_a + thread * plan.a_elements, plan.buffer_b + thread * plan.b_elements);
}

template <class T>
void blocked_launch(const profkit_matmul_params& p, const CpuCall& call) {
  if (is_few_rows<T>(p)) return few_rows_launch<T>(p, call);
  if (p.n == 1) return single_column_launch<T>(p, call);
  const BlockedPlan<T> plan(p, call.threads, call.blocking, call.workspace);
  on_threads(call.threads, [&](int thread) {
    if (plan.by_batch) {
      const Part items = part_of(p.batch, 1, call.threads, thread);
      for (int64_t item = items.begin; item < items.end; ++item) {
        multiply_part<T>(p, plan, MatmulOperands<T>(p, call, item), thread, {0, p.m}, {0, p.n});
      }
      return;
    }
    const Part rows = part_of(p.m, kTileRows, plan.grid.rows, thread / plan.grid.columns);
    const Part columns = part_of(p.n, kTileColumns<T>, plan.grid.columns, thread % plan.grid.columns);
    for (int64_t item = 0; item < p.batch; ++item) {
      multiply_part<T>(p, plan, MatmulOperands<T>(p, call, item), thread, rows, columns);
    }
  });
}

inline size_t blocked_workspace_bytes(const profkit_matmul_params& p, int threads,
                                      const CpuBlocking& blocking) {
  if (p.n == 1) return 0;
  if (p.dtype == PROFKIT_FLOAT32) {
    return is_few_rows<float>(p) ? 0 : BlockedPlan<float>(p, threads, blocking, nullptr).bytes;
  }
  return is_few_rows<double>(p) ? 0 : BlockedPlan<double>(p, threads, blocking, nullptr).bytes;
}

inline void blocked_launch_any(const profkit_matmul_params& p, const CpuCall& call) {
  p.dtype == PROFKIT_FLOAT32 ? blocked_launch<float>(p, call) : blocked_launch<double>(p, call);
}

template <class T>
CpuTunables blocked_tunables_of(const profkit_matmul_params& p, int threads, const CpuBlocking& blocking) {
  if (p.n == 1 || is_few_rows<T>(p)) return {};
  const BlockedPlan<T> plan(p, threads, blocking, nullptr);
  return block_tunables<T>(plan.m_part, plan.n_part, p.k, 1, plan.blocks);
}

inline CpuTunables blocked_tunables(const profkit_matmul_params& p, int threads,
                                    const CpuBlocking& blocking) {
  return p.dtype == PROFKIT_FLOAT32 ? blocked_tunables_of<float>(p, threads, blocking)
                                    : blocked_tunables_of<double>(p, threads, blocking);
}

extern const CpuEntry<profkit_matmul_params> matmul_blocked;
const CpuEntry<profkit_matmul_params> matmul_blocked = {blocked_workspace_bytes, blocked_launch_any,
                                                        blocked_tunables};

}  // namespace PROFKIT_ISA
}  // namespace profkit
