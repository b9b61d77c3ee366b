// Compares fast_divide.cuh with the processor's division where it could go wrong: around multiples of the
// divisor and at both ends, for all small divisors and those around every power of two. Prints what differs.
#include <cstdio>

#include "kernels/cuda/fast_divide.cuh"

namespace {

constexpr int64_t kEnd = int64_t{1} << 31;
int64_t checks = 0, failures = 0;

void check(const profkit::cuda::FastDivide& divide, int64_t dividend) {
  if (dividend < 0 || dividend >= kEnd) return;
  int remainder = -1;
  const int quotient = divide.split(static_cast<int>(dividend), remainder);
  ++checks;
  if (quotient == dividend / divide.divisor && remainder == dividend % divide.divisor) return;
  ++failures;
  std::printf("%lld / %d = %d rest %d\n", static_cast<long long>(dividend), divide.divisor, quotient,
              remainder);
}

void check_divisor(int64_t divisor) {
  if (divisor < 1 || divisor >= kEnd) return;
  const auto divide = profkit::cuda::fast_divide(static_cast<int>(divisor));
  const int64_t last = (kEnd - 1) / divisor;
  for (int64_t near = -2; near <= 2; ++near) {
    check(divide, kEnd - 1 + near);
    for (const int64_t multiple : {int64_t{0}, int64_t{1}, int64_t{2}, last / 3, last / 2, last - 1, last}) {
      check(divide, multiple * divisor + near);
    }
  }
}

}  // namespace

int main() {
  for (int64_t divisor = 1; divisor <= 70000; ++divisor) check_divisor(divisor);
  for (int log2 = 16; log2 <= 31; ++log2) {
    for (int64_t near = -40; near <= 40; ++near) check_divisor((int64_t{1} << log2) + near);
  }
  for (int64_t divisor = 70001; divisor < kEnd; divisor += divisor / 997 + 1) check_divisor(divisor);
  std::printf("%lld checks\n", static_cast<long long>(checks));
  return failures != 0;
}
