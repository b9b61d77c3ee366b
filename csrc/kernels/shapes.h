// The arrays of an operator and the valid ranges of its parameters, which the binding checks before any
// kernel sees a pointer. Each operator defines them in <operator>/arrays.cpp, with the checks below; they
// throw KernelError, with the numbers, when the parameters are inconsistent.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "kernels/params.h"

namespace profkit {

using Shape = std::vector<int64_t>;

struct NamedShape {
  std::string name;
  Shape shape;
  bool is_indices = false;  // whole numbers of 64 bits, not elements of the operator's type
};

struct Arrays {
  std::vector<NamedShape> inputs;  // in the order in which kernels take them
  Shape output;
  int64_t dtype;  // of every array
};

// Numbers from `smallest` to 2^31, by their names.
void require_counts(std::initializer_list<std::pair<const char*, int64_t>> values, int64_t smallest = 1);
// A number from 0 to choices - 1.
void require_choice(const char* name, int64_t value, int64_t choices);

// One of two numbers.
void require_one_of(const char* name, int64_t value, int64_t one, int64_t other);

// One direction of a sliding window.
struct WindowSide {
  const char* name;
  int64_t size, before, after, kernel, stride, dilation, out;
};
void require_window(const WindowSide& side);

// An array of that shape has at most 2^46 elements.
void require_size(const Shape& shape);

Shape image_shape(int64_t layout, int64_t batch, int64_t channels, int64_t height, int64_t width);

// The same arrays, once their element type and their sizes are right.
Arrays checked(Arrays arrays);

}  // namespace profkit
