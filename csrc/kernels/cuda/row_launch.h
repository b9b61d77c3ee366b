// The host's half of row_blocks.cuh, and the choice of a kernel by element type.
#pragma once

#include <limits>
#include <string>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/row_blocks.cuh"

namespace profkit {

// `count` rows of `extent` elements each, and how blocks cover them.
struct Rows {
  int64_t count, extent;

  // Of a batch of images in packs of `pack` elements: planes of positions in NCHW, positions of channels in
  // NHWC.
  static Rows of_images(int64_t layout, int64_t images, int64_t channels, int64_t positions,
                        int64_t pack = 1) {
    if (layout == PROFKIT_NCHW) return {images * channels, positions / pack};
    return {images * positions, channels / pack};
  }

  // The first power of two from `extent` on, at most the threads of a block.
  int64_t threads() const {
    int64_t threads = 1;
    while (threads < extent && threads < cuda::RowBlocks::kThreads) threads *= 2;
    return threads;
  }
  int64_t blocks_per_row() const { return cuda::divide_up(extent, threads()); }
  int64_t block_count() const {
    return cuda::divide_up(count, cuda::RowBlocks::kThreads / threads()) * blocks_per_row();
  }
  // Empty, or why the rows (called `what`) cannot be covered.
  std::string fits(const std::string& what) const {
    constexpr int64_t most = std::numeric_limits<int>::max();
    if (count > most - cuda::RowBlocks::kThreads || extent > most - cuda::RowBlocks::kThreads ||
        block_count() > most) {
      return what + ": " + std::to_string(count) + " rows of " + std::to_string(extent) +
             " elements are more than 2^31 - 1 blocks of a grid cover";
    }
    return {};
  }
  cuda::RowBlocks blocks() const {
    return {static_cast<int>(count), static_cast<int>(extent), static_cast<int>(blocks_per_row())};
  }
  Geometry geometry() const {
    return {dimensions(block_count()), dimensions(threads(), cuda::RowBlocks::kThreads / threads())};
  }
};

// Calls `work` with an element of a dtype, whose type is what counts.
template <class Work>
void with_element(int64_t dtype, const Work& work) {
  if (dtype == PROFKIT_FLOAT16) return work(__half());
  if (dtype == PROFKIT_BFLOAT16) return work(__nv_bfloat16());
  work(float());
}

// Why a CUDA kernel does not take another direction.
constexpr const char* kForwardOnly = "the CUDA kernels of this operator are written forward only";

template <class Params>
std::string no_float64(const Params& params) {
  return params.dtype == PROFKIT_FLOAT64 ? "it is written for float32, float16 and bfloat16" : "";
}

}  // namespace profkit
