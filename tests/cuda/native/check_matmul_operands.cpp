// matmul_on_device on matrices with gaps: rows longer than the product, a matrix that a batch shares, a bias
// per row. Compares with a plain loop, and sees that gaps of c keep what was in them. Prints how many it
// checked.
#include <cmath>
#include <cstdio>
#include <vector>

#include "kernels/matmul/cuda/kernels.h"

namespace {

struct Gaps {
  int64_t rows;     // elements behind each row
  int64_t batches;  // elements behind each matrix
  bool shares_a;    // one a for all products
  bool bias_of_rows;
};

constexpr float kUntouched = -12345.0f;

// Small whole numbers: sums are exact in any order.
float number(size_t at) { return static_cast<float>(static_cast<int>(at * 7 % 11) - 5); }

std::vector<float> numbers(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = number(i);
  return values;
}

// How many elements of c are wrong.
int wrong_elements(const profkit_matmul_params& p, const Gaps& gaps) {
  const int64_t a_rows = p.transpose_a ? p.k : p.m, b_rows = p.transpose_b ? p.n : p.k;
  profkit::MatmulOperands o{};
  o.a_row = (p.transpose_a ? p.m : p.k) + gaps.rows;
  o.b_row = (p.transpose_b ? p.k : p.n) + gaps.rows;
  o.c_row = p.n + gaps.rows;
  o.a_batch_step = gaps.shares_a ? 0 : a_rows * o.a_row + gaps.batches;
  o.b_batch_step = b_rows * o.b_row + gaps.batches;
  o.c_batch_step = p.m * o.c_row + gaps.batches;
  const std::vector<float> a = numbers(a_rows * o.a_row + (p.batch - 1) * o.a_batch_step),
                           b = numbers(b_rows * o.b_row + (p.batch - 1) * o.b_batch_step),
                           bias = numbers(gaps.bias_of_rows ? p.m : p.n);
  std::vector<float> c(static_cast<size_t>(p.batch * o.c_batch_step), kUntouched);
  std::vector<float> expected = c;
  o.a = a.data(), o.b = b.data(), o.bias = bias.data(), o.c = c.data();
  o.bias_of_rows = gaps.bias_of_rows;
  for (int64_t z = 0; z < p.batch; ++z) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        float sum = bias[static_cast<size_t>(gaps.bias_of_rows ? i : j)];
        for (int64_t k = 0; k < p.k; ++k) {
          const int64_t at_a = z * o.a_batch_step + (p.transpose_a ? k * o.a_row + i : i * o.a_row + k);
          const int64_t at_b = z * o.b_batch_step + (p.transpose_b ? j * o.b_row + k : k * o.b_row + j);
          sum += a[static_cast<size_t>(at_a)] * b[static_cast<size_t>(at_b)];
        }
        expected[static_cast<size_t>(z * o.c_batch_step + i * o.c_row + j)] = sum;
      }
    }
  }
  profkit::matmul_on_device(p, o, {});
  int wrong = 0;
  for (size_t i = 0; i < c.size(); ++i) wrong += c[i] != expected[i];
  return wrong;
}

}  // namespace

int main() {
  const Gaps all_gaps[] = {{0, 0, false, false},
                           {4, 8, false, true},
                           {3, 5, true, true},
                           {4, 0, true, false},
                           {0, 1, false, false}};
  const int64_t sizes[][4] = {{2, 5, 7, 3}, {3, 8, 12, 16}, {2, 70, 68, 9}, {1, 1, 1, 1}};
  int checked = 0;
  for (const Gaps& gaps : all_gaps) {
    for (const auto& size : sizes) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        profkit_matmul_params p{};
        p.batch = size[0], p.m = size[1], p.n = size[2], p.k = size[3];
        p.transpose_a = transposes & 1, p.transpose_b = transposes >> 1, p.bias = 1;
        const int wrong = wrong_elements(p, gaps);
        if (wrong != 0) {
          std::printf("%d elements are wrong: batch %d, m %d, n %d, k %d, transposes %d, gaps %d and %d\n",
                      wrong, static_cast<int>(p.batch), static_cast<int>(p.m), static_cast<int>(p.n),
                      static_cast<int>(p.k), transposes, static_cast<int>(gaps.rows),
                      static_cast<int>(gaps.batches));
          return 1;
        }
        ++checked;
      }
    }
  }
  std::printf("%d products\n", checked);
  return 0;
}
