// The host's half of cuda/image_rows.cuh.
#pragma once

#include "kernels/conv2d/cuda/image_rows.cuh"
#include "kernels/conv2d/cuda/params.h"
#include "kernels/cuda/row_launch.h"

namespace profkit {

// An image array that is written, one thread per element.
struct WrittenImages {
  const profkit_conv2d_params& params;
  int64_t channels, height, width;
  Rows rows;

  WrittenImages(const profkit_conv2d_params& p, bool is_output, int64_t images)
      : params(p),
        channels(is_output ? p.out_channels : p.in_channels),
        height(is_output ? p.out_h : p.height),
        width(is_output ? p.out_w : p.width),
        rows(Rows::of_images(p.layout, images, channels, height * width)) {}

  cuda::ImageRows problem() const {
    return {cuda_problem(params), rows.blocks(), cuda::fast_divide(static_cast<int>(channels)),
            cuda::fast_divide(static_cast<int>(height * width)), cuda::fast_divide(static_cast<int>(width))};
  }
};

}  // namespace profkit
