// A tile of one 16-bit operand in shared memory, lying as it does in global memory, so that asynchronous
// copies of 16 bytes bring it; ldmatrix then hands it out in either direction. Where rows are not aligned,
// single elements are stored as [across][depth] whatever the operand's layout.
//
// Banks: rows are 16 bytes longer than a multiple of 64, an odd number of 16-byte words: the 8 rows of a
// matrix lie in different banks.
#pragma once

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/matmul/cuda/tiles/operand.cuh"

namespace profkit::cuda {

// Which 8x8 matrix is the second of a fragment: the next across (a of mma) or the next in depth (b).
enum class Second { across, depth };

template <class T, int kAcross, int kDepth, int kThreads, Layout kLayout, bool kAligned>
class HalfTile {
 public:
  static constexpr Layout kStored = kAligned ? kLayout : Layout::along_depth;
  static constexpr int kRowLength = kStored == Layout::across ? kAcross : kDepth;
  static constexpr int kPitch = kRowLength + 8;
  static constexpr int kElements = (kStored == Layout::across ? kDepth : kAcross) * kPitch;
  static_assert(kRowLength % 16 == 0 && kPitch / 8 % 2 == 1);

  // `begin` is the element (first across, first term) of an operand with rows `row_length` apart in memory.
  // `is_along_depth` counts without kAligned only, where one instance serves both layouts.
  __device__ __forceinline__ HalfTile(const T* begin, int row_length, int across_left, int terms,
                                      bool is_along_depth)
      : next_(begin), row_length_(row_length), across_left_(across_left), depth_left_(terms) {
    is_along_depth_ = kAligned ? kLayout == Layout::along_depth : is_along_depth;
  }

  // Begins to bring the next tile; zeros where the operand ends.
  __device__ __forceinline__ void copy_next(T* tile) {
    if constexpr (kAligned) {
      copy_packs(tile);
    } else {
      copy_elements(tile);
    }
    next_ += is_along_depth_ ? kDepth : static_cast<int64_t>(kDepth) * row_length_;
    depth_left_ -= kDepth;
  }

  // The 16x16 elements from (across, depth) on, as four matrices.
  template <Second kSecond>
  __device__ __forceinline__ static void load_fragment(uint32_t (&fragment)[4], const T* tile, int across,
                                                       int depth) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int second = lane / 8 % 2 * 8, third = lane / 16 * 8;
    across += kSecond == Second::across ? second : third;
    depth += kSecond == Second::across ? third : second;
    if constexpr (kStored == Layout::across) {
      load_matrices<true>(fragment, tile + (depth + lane % 8) * kPitch + across);
    } else {
      load_matrices<false>(fragment, tile + (across + lane % 8) * kPitch + depth);
    }
  }

 private:
  __device__ __forceinline__ void copy_packs(T* tile) const {
    constexpr int kPacks = kAcross * kDepth / 8, kPacksPerRow = kRowLength / 8;
    constexpr int kRowStep = kThreads / kPacksPerRow;
    static_assert(kPacks % kThreads == 0 && kThreads % kPacksPerRow == 0);
    const int first = static_cast<int>(threadIdx.x) / kPacksPerRow,
              at = static_cast<int>(threadIdx.x) % kPacksPerRow * 8;
    // Rows that exist for this thread: none where its column is outside.
    const int rows = kStored == Layout::across ? (at < across_left_ ? depth_left_ : 0)
                                               : (at < depth_left_ ? across_left_ : 0);
    const T* const from = next_ + static_cast<int64_t>(first) * row_length_ + at;
#pragma unroll
    for (int i = 0; i < kPacks / kThreads; ++i) {
      const bool is_inside = first + i * kRowStep < rows;
      // The address must be valid even where nothing is read.
      copy_async<16>(tile + (first + i * kRowStep) * kPitch + at,
                     is_inside ? from + static_cast<int64_t>(i * kRowStep) * row_length_ : next_, is_inside);
    }
  }
  __device__ __forceinline__ void copy_elements(T* tile) const {
#pragma unroll 4
    for (int i = 0; i < kAcross * kDepth / kThreads; ++i) {
      const int element = static_cast<int>(threadIdx.x) + i * kThreads;
      const int across = is_along_depth_ ? element / kDepth : element % kAcross;
      const int depth = is_along_depth_ ? element % kDepth : element / kAcross;
      const int row = is_along_depth_ ? across : depth, at = is_along_depth_ ? depth : across;
      const bool is_inside = across < across_left_ && depth < depth_left_;
      tile[across * kPitch + depth] =
          is_inside ? next_[static_cast<int64_t>(row) * row_length_ + at] : from_float<T>(0.0f);
    }
  }

  const T* next_;
  int row_length_, across_left_, depth_left_;
  bool is_along_depth_;
};

}  // namespace profkit::cuda
