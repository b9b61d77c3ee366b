// matmul/native/cpu/blocked on one thread, piece by piece: the kernel's own loops with B packed ahead or not,
// and with the results where they belong or all in one small place. bench/matmul_parts.py compiles it.
#include <chrono>
#include <cstdlib>
#include <vector>

#include "fma_rate.h"
#include "kernels/matmul/cpu_blocked.inl"

namespace profkit {
void refuse_workspace() { std::abort(); }
void run_parallel(int threads, void (*body)(void*, int), void* context) {
  for (int thread = 0; thread < threads; ++thread) body(context, thread);
}
}  // namespace profkit

namespace {
using namespace profkit;
using namespace profkit::PROFKIT_ISA;

float* aligned(std::vector<float>& memory, int64_t count) {
  memory.assign(static_cast<size_t>(count) + 16, 0.5F);
  return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64 / sizeof(float);
}
}  // namespace

enum Piece { kProducts, kAndResults, kAndPacking };

// GFLOP/s of an m x n x k product, without the pieces after `piece`.
extern "C" double piece_gflops(int piece, int64_t m, int64_t n, int64_t k, int64_t l1d_bytes,
                               int64_t l2_bytes, int64_t l3_bytes) {
  profkit_matmul_params p{};
  p.batch = 1;
  p.m = m;
  p.n = n;
  p.k = k;
  p.dtype = PROFKIT_FLOAT32;
  const CpuBlocking blocking{l1d_bytes, l2_bytes, l3_bytes, {}};
  std::vector<float> memory[5];
  float *a = aligned(memory[0], m * k), *b = aligned(memory[1], k * n), *c = aligned(memory[2], m * n);
  float* workspace =
      aligned(memory[3], static_cast<int64_t>(blocked_workspace_bytes(p, 1, blocking) / 4 + 64));
  float* packed = aligned(memory[4], packed_ahead_elements<float>(n, k) + kPackSlack);
  if (piece < kAndPacking) pack_b<float>(p, b, packed, 1, blocking);
  // A tile's own rows and columns, wherever the tile is: its results stay in the first-level cache.
  std::vector<int64_t> row(static_cast<size_t>(m)), column(static_cast<size_t>(n));
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<int64_t>(i) % kTileRows * kTileColumns<float>;
  for (size_t j = 0; j < column.size(); ++j) column[j] = static_cast<int64_t>(j) % kTileColumns<float>;

  const CpuCall call{{a, b, nullptr}, c, workspace, piece < kAndPacking ? packed : nullptr, 1, blocking};
  const BlockedPlan<float> plan(p, 1, blocking, workspace);
  Product<float> x = product_of<float>(p, call, 0);
  if (piece == kProducts) {
    x.out.row_offset = row.data();
    x.out.column_offset = column.data();
  }
  multiply_part<float>(plan, x, 0, {0, m}, {0, n});
  const auto begin = std::chrono::steady_clock::now();
  multiply_part<float>(plan, x, 0, {0, m}, {0, n});
  return 2e-9 * static_cast<double>(m * n * k) / seconds_since(begin);
}
