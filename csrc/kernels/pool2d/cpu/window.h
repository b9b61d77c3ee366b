// The part of a pooling window that lies inside the image: what padding takes no part in.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/pool2d/params.h"

namespace profkit {

// Rows top..bottom and columns left..right (ends excluded); arrays.cpp refuses windows without any element.
struct PoolWindow {
  int64_t top, bottom, left, right;

  PoolWindow(const profkit_pool2d_params& p, int64_t y, int64_t x)
      : top(std::max<int64_t>(y * p.stride_h - p.pad_top, 0)),
        bottom(std::min(y * p.stride_h - p.pad_top + p.kernel_h, p.height)),
        left(std::max<int64_t>(x * p.stride_w - p.pad_left, 0)),
        right(std::min(x * p.stride_w - p.pad_left + p.kernel_w, p.width)) {}

  int64_t elements() const { return (bottom - top) * (right - left); }
};

}  // namespace profkit
