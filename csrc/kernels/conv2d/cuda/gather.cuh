// The gather of implicit convolution products. An element of the matrix that im2col would have written is
// addressed by a position and a term (a channel and a tap of the filter), and both are the same thing: an
// offset, and bits. Offsets add up to the element's; bits that meet say that it is in the padding. One of
// the two is fixed per thread, the other comes from a table in shared memory, so that an element costs an
// addition, one test and the load, whatever the stride, dilation and layout.
#pragma once

#include "kernels/cuda/device.cuh"

namespace profkit::cuda {

// Taps that the bits have room for, per axis.
constexpr int kMostTaps = 15;

// Bits of a term: 1 << row tap, and 1 << 16 + column tap. Bits of a position: the taps that lie outside the
// image. Bit 31 belongs to every position and to the term that does not exist, bit 15 to the position that
// does not exist.
struct alignas(8) GatherPart {
  int offset;  // in elements; may lie outside the image, sums that are used do not
  unsigned bits;
};
// Two neighbours of a table, as one load of 128 bits.
struct alignas(16) GatherPair {
  GatherPart low, high;
};
constexpr unsigned kNowhere = 0xffffffffu;  // no target
constexpr unsigned kNoTermBits = 1u << 31;
constexpr unsigned kPositionBits = 1u << 31;
constexpr unsigned kAnyPositionBits = 1u << 15;  // meets only the position that does not exist
constexpr unsigned kNoPositionBits = 0xffffffffu;

__device__ __forceinline__ unsigned term_bits(int row_tap, int column_tap) {
  return (1u << row_tap) | (1u << (16 + column_tap));
}

// The taps q of `taps` for which first + q * step is not in [0, size).
__device__ __forceinline__ unsigned taps_outside(int first, int step, int taps, int size) {
  unsigned bits = 0;
#pragma unroll 1
  for (int tap = 0; tap < taps; ++tap) {
    if (static_cast<unsigned>(first + tap * step) >= static_cast<unsigned>(size)) bits |= 1u << tap;
  }
  return bits;
}

struct GatherImage {
  int height, width;
  int image_step, channel_step, row_step, column_step;

  __device__ __forceinline__ int offset(int n, int channel, int h, int w) const {
    return n * image_step + channel * channel_step + h * row_step + w * column_step;
  }
};

}  // namespace profkit::cuda
