// The sum of two arrays, with vectors. Bottleneck: memory.
#pragma once

#include "kernels/add/params.h"
#include "kernels/cpu/line.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct AddVectorized {
  using Params = profkit_add_params;

  static size_t workspace_bytes(const Params&, int, const CpuBlocking&) { return 0; }

  static void launch(const Params& p, const CpuCall& call) {
    const T* const in[] = {static_cast<const T*>(call.inputs[0]), static_cast<const T*>(call.inputs[1])};
    T* const out[] = {static_cast<T*>(call.output)};
    map_line<T>(call, p.count, in, out,
                [](const Vec<T>(&v)[2], Vec<T>(&y)[1]) PROFKIT_INLINED { y[0] = v[0] + v[1]; });
  }
};

extern const CpuEntry<profkit_add_params> add_vectorized;
const CpuEntry<profkit_add_params> add_vectorized = EntryOf<AddVectorized, profkit_add_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
