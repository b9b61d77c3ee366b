// The host's half of row_blocks.cuh, and the choice of a kernel by element type.
#pragma once

#include <limits>
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/row_blocks.cuh"

namespace profkit {

// The first power of two from `count` on, at most the threads of a block.
inline int row_threads(int64_t count) {
  int threads = 1;
  while (threads < count && threads < cuda::RowBlocks::kThreads) threads *= 2;
  return threads;
}

inline int64_t row_block_count(int64_t rows, int64_t extent) {
  const int threads = row_threads(extent);
  return cuda::divide_up(rows, int64_t{cuda::RowBlocks::kThreads / threads}) *
         cuda::divide_up(extent, int64_t{threads});
}

// Empty, or why `rows` (called `what`) of `extent` elements cannot be covered.
inline std::string fits_row_blocks(int64_t rows, int64_t extent, const std::string& what) {
  constexpr int64_t most = std::numeric_limits<int>::max();
  if (rows > most - cuda::RowBlocks::kThreads || extent > most - cuda::RowBlocks::kThreads ||
      row_block_count(rows, extent) > most) {
    return what + ": " + std::to_string(rows) + " rows of " + std::to_string(extent) +
           " elements are more than 2^31 - 1 blocks of a grid cover";
  }
  return {};
}

inline cuda::RowBlocks row_blocks(int64_t rows, int64_t extent) {
  return {static_cast<int>(rows), static_cast<int>(extent),
          static_cast<int>(cuda::divide_up(extent, int64_t{row_threads(extent)}))};
}

inline Geometry row_geometry(int64_t rows, int64_t extent) {
  const auto threads = static_cast<unsigned>(row_threads(extent));
  return {dim3(static_cast<unsigned>(row_block_count(rows, extent))),
          dim3(threads, cuda::RowBlocks::kThreads / threads)};
}

template <class T>
struct Element {
  using Type = T;
};

// Calls `work` with the Element<T> of a dtype.
template <class Work>
void with_element(int64_t dtype, const Work& work) {
  if (dtype == PROFKIT_FLOAT16) return work(Element<__half>());
  if (dtype == PROFKIT_BFLOAT16) return work(Element<__nv_bfloat16>());
  work(Element<float>());
}

template <class Params>
std::string no_float64(const Params& params) {
  return params.dtype == PROFKIT_FLOAT64 ? "it is written for float32, float16 and bfloat16" : "";
}

}  // namespace profkit
