// What the problems of convolution and pooling kernels have in common: the images and the window over them.
#pragma once

#include <cstdint>

namespace profkit {

template <class Problem, class Params>
void set_window_fields(Problem& problem, const Params& p) {
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  problem.height = number(p.height);
  problem.width = number(p.width);
  problem.kernel_h = number(p.kernel_h);
  problem.kernel_w = number(p.kernel_w);
  problem.stride_h = number(p.stride_h);
  problem.stride_w = number(p.stride_w);
  problem.pad_top = number(p.pad_top);
  problem.pad_left = number(p.pad_left);
  problem.out_h = number(p.out_h);
  problem.out_w = number(p.out_w);
}

}  // namespace profkit
