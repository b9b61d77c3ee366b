// Which arrays an operator takes and gives, and which numbers it refuses: what the binding checks before any
// kernel sees a pointer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/params.h"

namespace profkit {

using Shape = std::vector<int64_t>;

struct NamedShape {
  std::string name;
  Shape shape;
};

struct Arrays {
  std::vector<NamedShape> inputs;  // in the order in which kernels take them
  Shape output;
  int64_t dtype;  // of every array
};

// Throw KernelError, with the numbers, when the parameters contradict themselves.
Arrays arrays_of(const profkit_conv2d_params& params);
Arrays arrays_of(const profkit_matmul_params& params);
Arrays arrays_of(const profkit_pool2d_params& params);
Arrays arrays_of(const profkit_lrn_params& params);
Arrays arrays_of(const profkit_bias_relu_params& params);
Arrays arrays_of(const profkit_softmax_params& params);

}  // namespace profkit
