// What the kernels of an LSTM share: products of rows, of which there are more or fewer from call to call,
// with weights that are packed once, on one thread through the blocked kernel of matmul; and the functions of
// gates.
#pragma once

#include "kernels/cpu/exponential.inl"
#include "kernels/cpu/work.inl"
#include "kernels/lstm/params.h"
#include "kernels/matmul/params.h"

namespace profkit {
namespace PROFKIT_ISA {

extern const CpuEntry<profkit_matmul_params> matmul_blocked;

template <class T>
struct LstmProduct {
  profkit_matmul_params params;
  CpuBlocking blocking;
  size_t packed_bytes, workspace;

  // `most` rows of `terms` values; the weights are [terms][columns], or [columns][terms] where transposed.
  LstmProduct(const profkit_lstm_params& p, int64_t most, int64_t columns, int64_t terms, bool is_transposed,
              bool bias, const CpuBlocking& of_call)
      : blocking(of_call) {
    params = {most, columns, terms, 1, 0, is_transposed, bias, PROFKIT_NONE, p.dtype};
    // The same steps of the reduction for any number of rows, as packing needs.
    blocking.requested = {};
    blocking.requested.kc = smaller(terms, 384);
    packed_bytes = matmul_blocked.packed_bytes(params, 1, blocking);
    workspace = matmul_blocked.workspace_bytes(params, 1, blocking);
  }
  void pack(const void* weights, void* to) const {
    if (packed_bytes > 0) matmul_blocked.pack(params, weights, to, 1, blocking);
  }
  void multiply(int64_t rows, const T* a, const void* weights, const T* bias, const void* packed, T* result,
                void* buffers) const {
    profkit_matmul_params own = params;
    own.m = rows;
    CpuCall call{{a, weights, bias}, result, buffers, nullptr, 1, blocking};
    // A product of few rows reads its weights where they are.
    call.packed = matmul_blocked.packed_bytes(own, 1, blocking) == packed_bytes ? packed : nullptr;
    matmul_blocked.launch(own, call);
  }
};

template <class T, bool IsHard>
PROFKIT_INLINE Vec<T> lstm_gate(Vec<T> z) {
  return IsHard ? hard_sigmoid<T>(z) : sigmoid<T>(z);
}
template <class T, bool IsSigmoid>
PROFKIT_INLINE Vec<T> lstm_state(Vec<T> z) {
  return IsSigmoid ? sigmoid<T>(z) : hyperbolic_tangent<T>(z);
}

// [step][sequence], as what one step needs lies together, of [sequence][step]; or the other way round.
template <class T, bool IsBack>
void lstm_turn(const T* from, T* to, int64_t sequences, int64_t steps, int64_t pitch, int64_t width) {
  for (int64_t n = 0; n < sequences; ++n) {
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t outside = (n * pitch + step) * width, inside = (step * sequences + n) * width;
      memcpy(to + (IsBack ? outside : inside), from + (IsBack ? inside : outside),
             static_cast<size_t>(width) * sizeof(T));
    }
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
