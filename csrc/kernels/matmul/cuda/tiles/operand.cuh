// A tile of one operand, copied from global memory through registers into shared memory, where it is
// [depth][across] whatever the operand's layout: across counts rows of a or columns of b, depth counts terms
// of the sum. Each thread carries chunks of four neighbouring elements: one 128-bit load when the caller
// knows that chunks are aligned, otherwise four.
//
// Banks: rows of the shared tile are 4 words longer than a multiple of 32. Chunks along depth are stored as
// four single words; a warp's lanes are 16 rows x 2 chunks, 16 and (4 * 4) % 32 = 16 banks apart: no
// conflict. Chunks across are stored as 128-bit words next to each other: no conflict.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/load_if.cuh"

namespace profkit::cuda {

enum class Layout {
  across,      // neighbours in memory are neighbours across: a transposed, b as it is
  along_depth  // neighbours in memory are neighbouring terms: a as it is, b transposed
};

struct Unrounded {
  __device__ __forceinline__ float operator()(float value) const { return value; }
};

template <int kAcross, int kDepth, int kThreads, Layout kLayout, bool kAligned>
class OperandTile {
 public:
  static constexpr int kPitch = kAcross + 4;
  static constexpr int kWords = kDepth * kPitch;

  // `begin` is the operand's element (first across, first term); consecutive rows of the matrix in memory are
  // `row_length` apart. `across_left` elements across exist from there on.
  __device__ __forceinline__ OperandTile(const float* begin, int row_length, int across_left) {
    const int thread = static_cast<int>(threadIdx.x);
    if constexpr (kLayout == Layout::across) {
      const int across = thread % (kAcross / 4) * 4;
      depth_ = thread / (kAcross / 4);
      place_ = depth_ * kPitch + across;
      next_ = begin + static_cast<int64_t>(depth_) * row_length + across;
      chunk_step_ = static_cast<int64_t>(kDepthStep) * row_length;
      row_bytes_ = static_cast<unsigned>(row_length) * 4;
#pragma unroll
      for (int e = 0; e < 4; ++e) inside_ |= (across + e < across_left ? 1u : 0u) << e;
    } else {
      const int across = thread / 2;
      depth_ = thread % 2 * 4;
      place_ = depth_ * kPitch + across;
      next_ = begin + static_cast<int64_t>(across) * row_length + depth_;
      chunk_step_ = static_cast<int64_t>(kAcrossStep) * row_length;
#pragma unroll
      for (int c = 0; c < kAcrossChunks; ++c) {
        inside_ |= (across + c * kAcrossStep < across_left ? 1u : 0u) << c;
      }
    }
  }

  // The first tile has `depth_left` terms, at most kDepth; the others become zero. The next tile begins after
  // them, so that all later tiles are full and need no check.
  __device__ __forceinline__ void load_first(int depth_left) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int depth = depth_of(c) + (kLayout == Layout::across ? 0 : e);
        if (depth < depth_left && is_inside(c, e)) staged_[c][e] = chunk(c)[e];
      }
    }
    advance(depth_left);
  }

  // What is outside keeps some earlier value: it reaches only sums that are never stored.
  __device__ __forceinline__ void load_next() {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if constexpr (kAligned) {
        load_four_if(staged_[c], chunk(c), is_inside(c, 0));
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) load_if(staged_[c][e], chunk(c) + e, is_inside(c, e));
      }
    }
    advance(kDepth);
  }

  template <class Convert = Unrounded>
  __device__ __forceinline__ void store(float* tile, const Convert& convert = {}) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if constexpr (kLayout == Layout::across) {
        *reinterpret_cast<float4*>(tile + place_ + c * kDepthStep * kPitch) = make_float4(
            convert(staged_[c][0]), convert(staged_[c][1]), convert(staged_[c][2]), convert(staged_[c][3]));
      } else {
        const int place = place_ + c % kAcrossChunks * kAcrossStep + c / kAcrossChunks * 8 * kPitch;
#pragma unroll
        for (int e = 0; e < 4; ++e) tile[place + e * kPitch] = convert(staged_[c][e]);
      }
    }
  }

 private:
  static constexpr int kChunks = kAcross * kDepth / 4 / kThreads;
  static_assert(kChunks * 4 * kThreads == kAcross * kDepth, "every thread carries as many chunks");
  // From a thread's chunk to its next one: across, then down 8 terms.
  static constexpr int kDepthStep = kThreads / (kAcross / 4);
  static constexpr int kAcrossStep = kThreads / 2;
  static constexpr int kAcrossChunks = kLayout == Layout::across ? 1 : kAcross / kAcrossStep;
  static_assert(kDepth % 8 == 0 && kAcrossChunks >= 1, "two lanes carry 8 terms of a row");

  // Unsigned bytes: the upper half of the step is then zero and needs no register.
  __device__ __forceinline__ void advance(int terms) {
    const unsigned bytes = static_cast<unsigned>(terms) * (kLayout == Layout::across ? row_bytes_ : 4u);
    next_ = reinterpret_cast<const float*>(reinterpret_cast<const char*>(next_) + bytes);
  }
  __device__ __forceinline__ const float* chunk(int c) const {
    if constexpr (kLayout == Layout::across) return next_ + c * chunk_step_;
    return next_ + c % kAcrossChunks * chunk_step_ + c / kAcrossChunks * 8;
  }
  __device__ __forceinline__ int depth_of(int c) const {
    return depth_ + (kLayout == Layout::across ? c * kDepthStep : c / kAcrossChunks * 8);
  }
  __device__ __forceinline__ bool is_inside(int c, int element) const {
    return (inside_ >> (kLayout == Layout::across ? element : c % kAcrossChunks)) & 1u;
  }

  const float* next_;
  int64_t chunk_step_;
  unsigned row_bytes_ = 0;
  int depth_;  // of the thread's first chunk
  int place_;  // of the same in the shared tile
  unsigned inside_ = 0;
  float staged_[kChunks][4] = {};
};

}  // namespace profkit::cuda
