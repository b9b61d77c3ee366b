// Division by a number that is known at launch: a multiplication and a shift instead of the twenty
// instructions of an integer division. Exact for every dividend in [0, 2^31) and divisor in [1, 2^31).
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

// With shift = 31 + ceil(log2 d) and multiplier = ceil(2^shift / d) the product is too large by less than
// dividend * d / 2^shift <= 1 step of the quotient's 1/d, so that rounding down gives the quotient itself;
// the multiplier is below 2^32.
struct FastDivide {
  uint32_t multiplier;
  uint32_t shift;
  int divisor;

  __device__ __forceinline__ int quotient(int dividend) const {
    return static_cast<int>((static_cast<uint64_t>(static_cast<uint32_t>(dividend)) * multiplier) >> shift);
  }
  // The quotient; the remainder through `remainder`.
  __device__ __forceinline__ int split(int dividend, int& remainder) const {
    const int result = quotient(dividend);
    remainder = dividend - result * divisor;
    return result;
  }
};

__host__ __device__ constexpr FastDivide fast_divide(int divisor) {
  uint32_t log2 = 0;
  while ((uint64_t{1} << log2) < static_cast<uint64_t>(divisor)) ++log2;
  const uint64_t power = uint64_t{1} << (31 + log2);
  const uint64_t d = static_cast<uint64_t>(divisor);
  return {static_cast<uint32_t>((power + d - 1) / d), 31 + log2, divisor};
}

}  // namespace profkit::cuda
