// The host's half of cuda/image_rows.cuh.
#pragma once

#include "kernels/conv2d/cuda/image_rows.cuh"
#include "kernels/conv2d/cuda/params.h"
#include "kernels/cuda/row_launch.h"

namespace profkit {

// An image array that is written, one thread per element.
struct WrittenImages {
  int64_t images, channels, height, width;
  bool is_nhwc;

  int64_t rows() const { return is_nhwc ? images * height * width : images * channels; }
  int64_t extent() const { return is_nhwc ? channels : height * width; }
  std::string fits() const { return fits_row_blocks(rows(), extent(), "the images"); }
  Geometry geometry() const { return row_geometry(rows(), extent()); }

  cuda::ImageRows problem(const profkit_conv2d_params& params) const {
    return {cuda_problem(params), row_blocks(rows(), extent()), cuda::fast_divide(static_cast<int>(channels)),
            cuda::fast_divide(static_cast<int>(height * width)), cuda::fast_divide(static_cast<int>(width))};
  }
};

inline WrittenImages input_images(const profkit_conv2d_params& p, int64_t images) {
  return {images, p.in_channels, p.height, p.width, p.layout == PROFKIT_NHWC};
}

inline WrittenImages output_images(const profkit_conv2d_params& p, int64_t images) {
  return {images, p.out_channels, p.out_h, p.out_w, p.layout == PROFKIT_NHWC};
}

inline int64_t weight_count(const profkit_conv2d_params& p) {
  return p.out_channels * (p.in_channels / p.groups) * p.kernel_h * p.kernel_w;
}

}  // namespace profkit
