// Which arrays pool2d takes and gives. Kernels may rely on everything that is checked here.
#include "kernels/pool2d/params.h"
#include "kernels/shapes.h"
#include "runtime/check.h"

namespace profkit {

Arrays arrays_of(const profkit_pool2d_params& p) {
  require_counts({{"batch", p.batch}, {"channels", p.channels}, {"height", p.height}, {"width", p.width}});
  require_counts(
      {{"kernel_h", p.kernel_h}, {"kernel_w", p.kernel_w}, {"out_h", p.out_h}, {"out_w", p.out_w}});
  require_counts({{"stride_h", p.stride_h}, {"stride_w", p.stride_w}});
  require_counts({{"pad_top", p.pad_top}, {"pad_bottom", p.pad_bottom}}, 0);
  require_counts({{"pad_left", p.pad_left}, {"pad_right", p.pad_right}}, 0);
  require_choice("layout", p.layout, 2);
  require_choice("mode", p.mode, 2);
  require_choice("direction", p.direction, 2);
  require_window({"out_h", p.height, p.pad_top, p.pad_bottom, p.kernel_h, p.stride_h, 1, p.out_h});
  require_window({"out_w", p.width, p.pad_left, p.pad_right, p.kernel_w, p.stride_w, 1, p.out_w});
  // Every window must hold at least one element of the image: its maximum or average is undefined otherwise.
  if (p.pad_top >= p.kernel_h || (p.out_h - 1) * p.stride_h - p.pad_top >= p.height ||
      p.pad_left >= p.kernel_w || (p.out_w - 1) * p.stride_w - p.pad_left >= p.width) {
    throw KernelError("params: the paddings are so large that a window would see padding only");
  }
  const Shape x = image_shape(p.layout, p.batch, p.channels, p.height, p.width);
  const Shape y = image_shape(p.layout, p.batch, p.channels, p.out_h, p.out_w);
  if (p.direction == PROFKIT_FORWARD) return checked({{{"x", x}}, y, p.dtype});
  // Only a maximum needs x, to find where its value came from.
  if (p.mode == PROFKIT_MAX) return checked({{{"x", x}, {"dy", y}}, x, p.dtype});
  return checked({{{"dy", y}}, x, p.dtype});
}

}  // namespace profkit
