// Maximum or average under a sliding window. NCHW: one direction after the other (cpu/planes.inl), or whole
// planes to one value each (cpu/whole_planes.inl); NHWC: vectors of channels (cpu/pixels.inl). A thread owns
// rows of the result. Bottleneck: memory; for images in the caches, loads from the first one.
#pragma once

#include "kernels/pool2d/cpu/pixels.inl"
#include "kernels/pool2d/cpu/planes.inl"
#include "kernels/pool2d/cpu/whole_planes.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct PoolSpace {
  T *rows, *shares;
  int64_t rows_length, shares_length;
  PoolSpace(const profkit_pool2d_params& p, Arena& arena, int threads)
      : rows(nullptr), shares(nullptr), rows_length(0), shares_length(0) {
    if (pools_whole_planes<T>(p)) return;
    const bool is_planar = p.layout == PROFKIT_NCHW;
    rows_length = is_planar ? row_plan<T>(p).length : pixel_plan<T>(p).length;
    shares_length = is_planar && p.mode == PROFKIT_AVERAGE ? p.out_w : 0;
    rows = arena.take<T>(rows_length, threads);
    shares = arena.take<T>(shares_length, threads);
  }
};

template <class T, class How>
void pool_run(const profkit_pool2d_params& p, const CpuCall& call) {
  Arena arena(call.workspace);
  const PoolSpace<T> space(p, arena, call.threads);
  on_threads(call.threads, [&](int thread) {
    if (pools_whole_planes<T>(p)) return pool_whole_planes<T, How>(p, call, thread);
    T* rows = space.rows + thread * space.rows_length;
    if (p.layout == PROFKIT_NHWC) {
      return pool_pixels<T, How>(p, call, rows, part_of(p.batch * p.out_h, 1, call.threads, thread));
    }
    pool_planes_of<T, How>(p, call, rows, space.shares + thread * space.shares_length,
                           part_of(p.batch * p.channels * p.out_h, 1, call.threads, thread));
  });
}

// Along a direction with one window the stride means nothing, however large it is.
inline profkit_pool2d_params with_used_strides(profkit_pool2d_params p) {
  if (p.out_h == 1) p.stride_h = 1;
  if (p.out_w == 1) p.stride_w = 1;
  return p;
}

template <class T>
struct PoolSeparable {
  static size_t workspace_bytes(const profkit_pool2d_params& given, int threads, const CpuBlocking&) {
    Arena counter(nullptr);
    const PoolSpace<T> space(with_used_strides(given), counter, threads);
    return counter.used_bytes();
  }

  static void launch(const profkit_pool2d_params& given, const CpuCall& call) {
    const profkit_pool2d_params p = with_used_strides(given);
    p.mode == PROFKIT_MAX ? pool_run<T, Largest<T>>(p, call) : pool_run<T, Sum<T>>(p, call);
  }
};

extern const CpuEntry<profkit_pool2d_params> pool2d_separable;
const CpuEntry<profkit_pool2d_params> pool2d_separable =
    EntryOf<PoolSeparable, profkit_pool2d_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
