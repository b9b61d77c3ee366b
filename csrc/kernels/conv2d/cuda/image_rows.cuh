// The position of a thread that writes one element of an image array, and which outputs see an input element.
#pragma once

#include "kernels/conv2d/cuda/problem.cuh"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/row_blocks.cuh"

namespace profkit::cuda {

// The array that is written: rows are planes in NCHW and positions of all images in NHWC.
struct ImageRows {
  ConvProblem conv;
  RowBlocks blocks;
  FastDivide by_channels, by_positions, by_width;  // of the array that is written
};

struct ImagePlace {
  int n, channel, row, column;

  __device__ __forceinline__ explicit ImagePlace(const ImageRows& p) {
    int position = p.blocks.at();
    if (p.conv.is_nhwc) {
      channel = p.blocks.at();
      n = p.by_positions.split(p.blocks.row(), position);
    } else {
      n = p.by_channels.split(p.blocks.row(), channel);
    }
    row = p.by_width.split(position, column);
  }
};

// Which output row (or column) sees an input row through a tap: `tap_end` is the input's place with its
// padding less the tap's. False where none does.
__device__ __forceinline__ bool output_of(int tap_end, int stride, int count, int& at) {
  if (tap_end < 0) return false;
  at = tap_end / stride;
  return at < count && at * stride == tap_end;
}

}  // namespace profkit::cuda
