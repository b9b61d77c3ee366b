// An array under a mask, with vectors. Bottleneck: memory.
#pragma once

#include "kernels/cpu/line.inl"
#include "kernels/dropout/params.h"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct DropoutVectorized {
  using Params = profkit_dropout_params;

  static size_t workspace_bytes(const Params&, int, const CpuBlocking&) { return 0; }

  static void launch(const Params& p, const CpuCall& call) {
    const T* const in[] = {static_cast<const T*>(call.inputs[0]), static_cast<const T*>(call.inputs[1])};
    T* const out[] = {static_cast<T*>(call.output)};
    map_line<T>(call, p.count, in, out,
                [](const Vec<T>(&v)[2], Vec<T>(&y)[1]) PROFKIT_INLINED { y[0] = v[0] * v[1]; });
  }
};

extern const CpuEntry<profkit_dropout_params> dropout_vectorized;
const CpuEntry<profkit_dropout_params> dropout_vectorized =
    EntryOf<DropoutVectorized, profkit_dropout_params>::plain();

}  // namespace PROFKIT_ISA
}  // namespace profkit
