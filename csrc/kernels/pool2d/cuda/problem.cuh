// Pooling as CUDA kernels take it, and the position of a thread: one thread per pack of kPack channels (NHWC)
// or per element (kPack 1, either layout) of whichever array is written.
#pragma once

#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/row_blocks.cuh"

namespace profkit::cuda {

// Blocks of 256 threads that registers are bounded for: four leave 64 to a thread, three 80, which packs of
// eight need from sm_100 on. Without a number the compiler aims at more blocks and spills for them. So it
// does where it may unroll the walk along a window's row as far as it likes.
__host__ __device__ constexpr int pool_blocks(int pack) { return pack > 4 ? 3 : 4; }

// Rows and columns of a window inside the image, ends excluded.
struct PoolWindow {
  int top, bottom, left, right;

  __device__ __forceinline__ float elements() const {
    return static_cast<float>((bottom - top)) * static_cast<float>(right - left);
  }
};

// Indices first..last of the windows over one row or column of the input.
struct WindowsOver {
  int first, last;

  __device__ __forceinline__ WindowsOver(int at, int pad, int kernel, int stride, int count) {
    const int reach = at + pad - kernel;  // window i covers it when i * stride is above this ...
    first = reach < 0 ? 0 : reach / stride + 1;
    last = min((at + pad) / stride, count - 1);  // ... and at most at + pad
  }
};

struct PoolProblem {
  RowBlocks blocks;  // over the array that is written; extent in packs for NHWC
  int is_nchw, channels;
  int height, width, out_h, out_w;
  int kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
  FastDivide by_width, by_positions;  // of the array that is written

  // A padding may lie behind the image's end too: a window is clipped on all sides.
  __device__ __forceinline__ PoolWindow window(int y, int x) const {
    const int top = y * stride_h - pad_top, left = x * stride_w - pad_left;
    return {max(top, 0), min(top + kernel_h, height), max(left, 0), min(left + kernel_w, width)};
  }
};

// The thread's row and column in the array that is written, and its plane or channels in either array.
struct PoolPlace {
  int row, column;
  int64_t x_start, y_start;  // of row 0, column 0
  int x_row_step, y_row_step, column_step;

  template <int kPack>
  __device__ __forceinline__ static PoolPlace of(const PoolProblem& p) {
    PoolPlace place;
    const int64_t x_positions = static_cast<int64_t>(p.height) * p.width;
    const int64_t y_positions = static_cast<int64_t>(p.out_h) * p.out_w;
    if (p.is_nchw) {
      const int plane = p.blocks.row();
      place.row = p.by_width.split(p.blocks.at(), place.column);
      place.x_start = plane * x_positions;
      place.y_start = plane * y_positions;
      place.column_step = 1;
    } else {
      int position;
      const int image = p.by_positions.split(p.blocks.row(), position);
      const int channel = p.blocks.at() * kPack;
      place.row = p.by_width.split(position, place.column);
      place.x_start = image * x_positions * p.channels + channel;
      place.y_start = image * y_positions * p.channels + channel;
      place.column_step = p.channels;
    }
    place.x_row_step = p.width * place.column_step;
    place.y_row_step = p.out_w * place.column_step;
    return place;
  }
  __device__ __forceinline__ int64_t x_at(int h, int w) const {
    return x_start + static_cast<int64_t>(h) * x_row_step + static_cast<int64_t>(w) * column_step;
  }
  __device__ __forceinline__ int64_t y_at(int y, int x) const {
    return y_start + static_cast<int64_t>(y) * y_row_step + static_cast<int64_t>(x) * column_step;
  }
};

}  // namespace profkit::cuda
