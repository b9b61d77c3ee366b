// Where an element of an image batch lies, in either layout.
#pragma once

#include <cstdint>

#include "kernels/params.h"

namespace profkit {

struct ImageIndex {
  int64_t n_step, c_step, h_step, w_step;  // distance, in elements, of neighbours in each dimension

  ImageIndex(int64_t layout, int64_t channels, int64_t height, int64_t width)
      : n_step(channels * height * width),
        c_step(layout == PROFKIT_NCHW ? height * width : 1),
        h_step(layout == PROFKIT_NCHW ? width : width * channels),
        w_step(layout == PROFKIT_NCHW ? 1 : channels) {}

  int64_t at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return n * n_step + c * c_step + h * h_step + w * w_step;
  }
};

}  // namespace profkit
