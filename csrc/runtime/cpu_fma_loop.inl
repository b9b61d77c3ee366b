// A loop of independent multiply-adds that stays in registers: acc = acc * a + b on enough accumulators to
// cover latency x pipes. Input: PROFKIT_ISA, PROFKIT_VECTOR_BYTES, PROFKIT_ACCUMULATORS
// (kernels/cpu/isa_*.h). Bottleneck: the multiply-add pipes, nothing else.
#include "runtime/fma_loop.h"

namespace profkit {
namespace PROFKIT_ISA {
namespace {

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(PROFKIT_VECTOR_BYTES)));
};

template <class T>
double fma_loop(int64_t iterations, int64_t* flops_per_iteration) {
  using Vector = typename VectorOf<T>::type;
  constexpr int kLanes = PROFKIT_VECTOR_BYTES / static_cast<int>(sizeof(T));
  constexpr int kAccumulators = PROFKIT_ACCUMULATORS;
  // volatile: unknown to the compiler, so that nothing folds; the values keep acc near 1.
  volatile T factor_source = T(0.5), term_source = T(0.5);
  const Vector factor = Vector{} + factor_source, term = Vector{} + term_source;
  Vector accumulators[kAccumulators];
#pragma GCC unroll 24
  for (int i = 0; i < kAccumulators; ++i) accumulators[i] = Vector{} + T(i + 1);
  for (int64_t iteration = 0; iteration < iterations; ++iteration) {
#pragma GCC unroll 24
    for (int i = 0; i < kAccumulators; ++i) accumulators[i] = accumulators[i] * factor + term;
  }
  double sum = 0;
  for (int i = 0; i < kAccumulators; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) sum += static_cast<double>(accumulators[i][lane]);
  }
  *flops_per_iteration = int64_t{2} * kAccumulators * kLanes;
  return sum;
}

}  // namespace

double fma_loop_f32(int64_t iterations, int64_t* flops_per_iteration) {
  return fma_loop<float>(iterations, flops_per_iteration);
}

double fma_loop_f64(int64_t iterations, int64_t* flops_per_iteration) {
  return fma_loop<double>(iterations, flops_per_iteration);
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
