// How elementwise kernels cover `rows` rows of `extent` elements each: blocks of 256 threads, as many in x as
// a row can use, the others in y on further rows. Small images then fill their blocks, threads divide once
// per block instead of once per element, and neighbouring lanes read neighbouring addresses.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

struct RowBlocks {
  int rows, extent, blocks_per_row;

  static constexpr int kThreads = 256;

  __device__ __forceinline__ int row() const {
    return static_cast<int>(blockIdx.x / static_cast<unsigned>(blocks_per_row) * blockDim.y + threadIdx.y);
  }
  __device__ __forceinline__ int at() const {
    return static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks_per_row) * blockDim.x + threadIdx.x);
  }
  __device__ __forceinline__ bool is_inside() const { return row() < rows && at() < extent; }
};

}  // namespace profkit::cuda
