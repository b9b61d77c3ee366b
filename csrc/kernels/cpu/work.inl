// What kernels of all operators share: pieces of the workspace, parts of the work for threads, and the entry
// of a kernel that is written for one element type.
#pragma once

#include "kernels/cpu/entry.h"
#include "kernels/cpu/simd.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Workspaces stay below this, so that rounding a size up never overflows.
constexpr int64_t kLargestWorkspace = int64_t{1} << 62;

PROFKIT_INLINE int64_t checked_product(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kLargestWorkspace) refuse_workspace();
  return product;
}

// Hands out 64-byte aligned pieces of the workspace; with no base it only counts, so that workspace_bytes and
// launch follow one plan.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* take(int64_t count, int64_t copies = 1) {
    char* piece = base_ ? base_ + used_ : nullptr;
    const int64_t bytes = checked_product(checked_product(count, copies), static_cast<int64_t>(sizeof(T)));
    if (bytes > kLargestWorkspace - used_) refuse_workspace();
    used_ = round_up(used_ + bytes, 64);
    return reinterpret_cast<T*>(piece);
  }
  size_t used_bytes() const { return static_cast<size_t>(used_); }

 private:
  char* base_;
  int64_t used_ = 0;
};

// Part `index` of `parts` of `count` items, cut at multiples of `unit`.
struct Part {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
PROFKIT_INLINE Part part_of(int64_t count, int64_t unit, int64_t parts, int64_t index) {
  const int64_t units = ceil_div(count, unit);
  return {smaller(count, units * index / parts * unit), smaller(count, units * (index + 1) / parts * unit)};
}
PROFKIT_INLINE int64_t largest_part(int64_t count, int64_t unit, int64_t parts) {
  return smaller(count, ceil_div(ceil_div(count, unit), parts) * unit);
}

template <class Body>
PROFKIT_INLINE void on_threads(int threads, const Body& body) {
  if (threads <= 1) return body(0);
  run_parallel(
      threads, [](void* context, int thread) { (*static_cast<const Body*>(context))(thread); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// The entry of a kernel whose functions for elements of type T are the static ones of Of<T>, named as
// CpuEntry's.
template <template <class> class Of, class Params>
struct EntryOf {
  static size_t workspace_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    return p.dtype == PROFKIT_FLOAT32 ? Of<float>::workspace_bytes(p, threads, blocking)
                                      : Of<double>::workspace_bytes(p, threads, blocking);
  }
  static void launch(const Params& p, const CpuCall& call) {
    p.dtype == PROFKIT_FLOAT32 ? Of<float>::launch(p, call) : Of<double>::launch(p, call);
  }
  static CpuTunables tunables(const Params& p, int threads, const CpuBlocking& blocking) {
    return p.dtype == PROFKIT_FLOAT32 ? Of<float>::tunables(p, threads, blocking)
                                      : Of<double>::tunables(p, threads, blocking);
  }
  static size_t packed_bytes(const Params& p, int threads, const CpuBlocking& blocking) {
    return p.dtype == PROFKIT_FLOAT32 ? Of<float>::packed_bytes(p, threads, blocking)
                                      : Of<double>::packed_bytes(p, threads, blocking);
  }
  static void pack(const Params& p, const void* weights, void* packed, int threads,
                   const CpuBlocking& blocking) {
    p.dtype == PROFKIT_FLOAT32 ? Of<float>::pack(p, weights, packed, threads, blocking)
                               : Of<double>::pack(p, weights, packed, threads, blocking);
  }

  static constexpr CpuEntry<Params> plain() { return {workspace_bytes, launch}; }
  static constexpr CpuEntry<Params> with_tunables() { return {workspace_bytes, launch, tunables}; }
  static constexpr CpuEntry<Params> with_packing() {
    return {workspace_bytes, launch, tunables, packed_bytes, pack};
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
