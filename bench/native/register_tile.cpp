// The kernels' own register tile in the shape that PROFKIT_TILE_ROWS and PROFKIT_TILE_VECTORS give, on panels
// that stay in the first-level cache: nothing but loads and FMAs can limit it. bench/register_tiles.py
// compiles it once per shape. Leaves: tile_gflops(steps, repetitions), and fma_rate.h's fma_gflops.
#include <chrono>
#include <vector>

#include "fma_rate.h"
#include "kernels/matmul/cpu_micro_kernel.inl"

namespace {
using namespace profkit::PROFKIT_ISA;
}  // namespace

extern "C" double tile_gflops(int64_t steps, int64_t repetitions) {
  constexpr int64_t rows = kTileRows, columns = kTileColumns<float>, line = 16;
  std::vector<float> memory(static_cast<size_t>(steps * (rows + columns) + rows * columns + 4 * line), 0.5F);
  const auto skipped = (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64 / sizeof(float);
  float* b = memory.data() + skipped;
  float* c = b + steps * columns;
  float* a = c + rows * columns;
  const Out<float> out{c, columns, nullptr, nullptr, nullptr, nullptr, false, false};
  const PackedTile<float> tile{steps, a, b};
  run_tile<float>(tile, out, 0, 0, rows, columns);
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < repetitions; ++i) run_tile<float>(tile, out, 0, 0, rows, columns);
  return 2e-9 * static_cast<double>(rows * columns * steps * repetitions) / seconds_since(begin);
}
