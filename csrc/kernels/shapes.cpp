// Parameters in, checked array shapes out. A kernel may rely on everything that is refused here.
#include "kernels/shapes.h"

#include <algorithm>
#include <initializer_list>
#include <new>
#include <utility>

#include "kernels/cpu_entry.h"
#include "runtime/check.h"

namespace profkit {
namespace {

using Named = std::initializer_list<std::pair<const char*, int64_t>>;

// Products of two such numbers fit 64 bits, and so does every index expression of a kernel.
constexpr int64_t kLargestNumber = int64_t{1} << 31;
constexpr int64_t kLargestArray = int64_t{1} << 46;

void require_counts(Named values, int64_t smallest = 1) {
  for (const auto& [name, value] : values) {
    if (value < smallest || value > kLargestNumber) {
      throw KernelError("params: " + std::string(name) + " must be between " + std::to_string(smallest) +
                        " and " + std::to_string(kLargestNumber) + ", got " + std::to_string(value));
    }
  }
}

void require_choice(const char* name, int64_t value, int64_t choices) {
  if (value < 0 || value >= choices) {
    throw KernelError("params: " + std::string(name) + " must be 0.." + std::to_string(choices - 1) +
                      ", got " + std::to_string(value));
  }
}

// One direction of a sliding window.
struct WindowSide {
  const char* name;
  int64_t size, before, after, kernel, stride, dilation, out;
};

void require_window(const WindowSide& side) {
  if (side.size + side.before + side.after > kLargestNumber) {
    throw KernelError("params: " + std::string(side.name) + ": " + std::to_string(side.size) +
                      " elements with a padding of " + std::to_string(side.before) + " and " +
                      std::to_string(side.after) + " are more than " + std::to_string(kLargestNumber));
  }
  const int64_t room = side.size + side.before + side.after - side.dilation * (side.kernel - 1) - 1;
  if (room < 0 || room / side.stride + 1 != side.out) {
    throw KernelError("params: " + std::string(side.name) + " is " + std::to_string(side.out) + ", but (" +
                      std::to_string(side.size) + " + " + std::to_string(side.before) + " + " +
                      std::to_string(side.after) + " - " + std::to_string(side.dilation) + "*(" +
                      std::to_string(side.kernel) + "-1) - 1) // " + std::to_string(side.stride) +
                      " + 1 = " + (room < 0 ? "none" : std::to_string(room / side.stride + 1)));
  }
}

Shape image_shape(int64_t layout, int64_t batch, int64_t channels, int64_t height, int64_t width) {
  if (layout == PROFKIT_NCHW) return {batch, channels, height, width};
  return {batch, height, width, channels};
}

void require_size(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > kLargestArray) {
      throw KernelError("params: an array, with its padding, would have more than " +
                        std::to_string(kLargestArray) + " elements");
    }
  }
}

Arrays checked(Arrays arrays) {
  require_choice("dtype", arrays.dtype, 4);
  for (const NamedShape& input : arrays.inputs) require_size(input.shape);
  require_size(arrays.output);
  return arrays;
}

}  // namespace

void refuse_workspace() { throw std::bad_alloc(); }

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

Arrays arrays_of(const profkit_matmul_params& p) {
  require_counts({{"batch", p.batch}, {"m", p.m}, {"n", p.n}, {"k", p.k}});
  require_choice("transpose_a", p.transpose_a, 2);
  require_choice("transpose_b", p.transpose_b, 2);
  require_choice("bias", p.bias, 2);
  require_choice("activation", p.activation, 2);

  // A batch of one is a plain matrix: [m, k], not [1, m, k].
  const auto stacked = [&](int64_t rows, int64_t columns) {
    return p.batch == 1 ? Shape{rows, columns} : Shape{p.batch, rows, columns};
  };
  Arrays arrays;
  arrays.inputs.push_back({"a", p.transpose_a != 0 ? stacked(p.k, p.m) : stacked(p.m, p.k)});
  arrays.inputs.push_back({"b", p.transpose_b != 0 ? stacked(p.n, p.k) : stacked(p.k, p.n)});
  if (p.bias != 0) arrays.inputs.push_back({"bias", {p.n}});
  arrays.output = stacked(p.m, p.n);
  arrays.dtype = p.dtype;
  return checked(std::move(arrays));
}

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
  // Only a maximum has to look where its value came from.
  if (p.mode == PROFKIT_MAX) return checked({{{"x", x}, {"dy", y}}, x, p.dtype});
  return checked({{{"dy", y}}, x, p.dtype});
}

Arrays arrays_of(const profkit_lrn_params& p) {
  require_counts({{"batch", p.batch}, {"channels", p.channels}, {"height", p.height}, {"width", p.width}});
  require_counts({{"size", p.size}});
  require_choice("layout", p.layout, 2);
  const Shape images = image_shape(p.layout, p.batch, p.channels, p.height, p.width);
  return checked({{{"x", images}}, images, p.dtype});
}

Arrays arrays_of(const profkit_bias_relu_params& p) {
  require_counts({{"batch", p.batch}, {"channels", p.channels}, {"height", p.height}, {"width", p.width}});
  require_choice("layout", p.layout, 2);
  const Shape images = image_shape(p.layout, p.batch, p.channels, p.height, p.width);
  return checked({{{"x", images}, {"b", {p.channels}}}, images, p.dtype});
}

Arrays arrays_of(const profkit_softmax_params& p) {
  require_counts({{"rows", p.rows}, {"columns", p.columns}});
  return checked({{{"x", {p.rows, p.columns}}}, {p.rows, p.columns}, p.dtype});
}

}  // namespace profkit
