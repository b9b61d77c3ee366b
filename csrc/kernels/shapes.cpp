#include "kernels/shapes.h"

#include <new>

#include "kernels/cpu/entry.h"
#include "runtime/check.h"

namespace profkit {
namespace {

// Products of two such numbers fit 64 bits, and so does every index expression of a kernel.
constexpr int64_t kLargestNumber = int64_t{1} << 31;
constexpr int64_t kLargestArray = int64_t{1} << 46;

}  // namespace

void require_counts(std::initializer_list<std::pair<const char*, int64_t>> values, int64_t smallest) {
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

void require_one_of(const char* name, int64_t value, int64_t one, int64_t other) {
  if (value != one && value != other) {
    throw KernelError("params: " + std::string(name) + " must be " + std::to_string(one) + " or " +
                      std::to_string(other) + ", got " + std::to_string(value));
  }
}

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

void refuse_workspace() { throw std::bad_alloc(); }

void refuse_index(int64_t index, int64_t count) {
  throw KernelError("an index is " + std::to_string(index) + ": it must be from 0 to " +
                    std::to_string(count - 1));
}

}  // namespace profkit
