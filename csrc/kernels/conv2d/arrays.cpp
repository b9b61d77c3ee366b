// Which arrays conv2d takes and gives. Kernels may rely on everything that is checked here.
#include <algorithm>
#include <utility>

#include "kernels/conv2d/params.h"
#include "kernels/shapes.h"
#include "runtime/check.h"

namespace profkit {

Arrays arrays_of(const profkit_conv2d_params& p) {
  require_counts(
      {{"batch", p.batch}, {"in_channels", p.in_channels}, {"height", p.height}, {"width", p.width}});
  require_counts({{"out_channels", p.out_channels}, {"kernel_h", p.kernel_h}, {"kernel_w", p.kernel_w}});
  require_counts({{"stride_h", p.stride_h}, {"stride_w", p.stride_w}, {"dilation_h", p.dilation_h}});
  require_counts(
      {{"dilation_w", p.dilation_w}, {"groups", p.groups}, {"out_h", p.out_h}, {"out_w", p.out_w}});
  require_counts({{"pad_top", p.pad_top}, {"pad_bottom", p.pad_bottom}}, 0);
  require_counts({{"pad_left", p.pad_left}, {"pad_right", p.pad_right}}, 0);
  require_choice("layout", p.layout, 2);
  require_choice("bias", p.bias, 2);
  require_choice("activation", p.activation, 2);
  require_choice("direction", p.direction, 3);
  if (p.in_channels % p.groups != 0 || p.out_channels % p.groups != 0) {
    throw KernelError("params: groups " + std::to_string(p.groups) + " does not divide in_channels " +
                      std::to_string(p.in_channels) + " and out_channels " + std::to_string(p.out_channels));
  }
  require_window({"out_h", p.height, p.pad_top, p.pad_bottom, p.kernel_h, p.stride_h, p.dilation_h, p.out_h});
  require_window({"out_w", p.width, p.pad_left, p.pad_right, p.kernel_w, p.stride_w, p.dilation_w, p.out_w});
  // Kernels lay images out with their padding: x forward, dy, which has the other channels, for the gradient.
  require_size({p.batch, std::max(p.in_channels, p.out_channels), p.height + p.pad_top + p.pad_bottom,
                p.width + p.pad_left + p.pad_right});

  const Shape x = image_shape(p.layout, p.batch, p.in_channels, p.height, p.width);
  const Shape y = image_shape(p.layout, p.batch, p.out_channels, p.out_h, p.out_w);
  const Shape w = {p.out_channels, p.in_channels / p.groups, p.kernel_h, p.kernel_w};
  if (p.direction == PROFKIT_INPUT_GRADIENT) return checked({{{"dy", y}, {"w", w}}, x, p.dtype});
  if (p.direction == PROFKIT_WEIGHT_GRADIENT) return checked({{{"x", x}, {"dy", y}}, w, p.dtype});
  Arrays arrays = {{{"x", x}, {"w", w}}, y, p.dtype};
  if (p.bias != 0) arrays.inputs.push_back({"b", {p.out_channels}});
  return checked(std::move(arrays));
}

}  // namespace profkit
