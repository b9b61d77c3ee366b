// Convolution as a gather, the same for all directions: every position of a grid reads `taps` pixels of a
// source image per axis. Enters: profkit_conv2d_params; leaves: Gather, which the packing and slab code
// follow.
// Forward: the grid is the output, the source is x, the taps are the kernel.
// Input gradient: the grid is one residue class ("phase") of input positions modulo the stride, the source is
// dy, the taps are the kernel elements that reach this class; no product with a structural zero is ever made.
// Weight gradient: grid and taps of forward; the roles of reduction and result change in the caller.
#pragma once

#include "kernels/conv2d/params.h"
#include "kernels/matmul/cpu/gemm.inl"

namespace profkit {
namespace PROFKIT_ISA {

// One axis. Position q reads source index q * step + first + t * tap_step for t = 0..taps-1 (tap_step >= 0),
// where tap t is kernel element kernel_first + t * kernel_step; its result belongs at out_first + q *
// out_step.
struct Axis {
  int64_t size, grid, step;
  int64_t taps, first, tap_step;
  int64_t kernel_first, kernel_step;
  int64_t out_first, out_step;

  int64_t lowest() const { return first; }
  int64_t highest() const { return (grid - 1) * step + last_tap() + first; }
  int64_t last_tap() const { return (taps - 1) * tap_step; }
  int64_t length() const { return highest() - lowest() + 1; }
  bool inside() const { return lowest() >= 0 && highest() < size; }
};

struct Gather {
  Axis h, w;
  int64_t batch, groups;
  int64_t channels;      // of the source, per group: reduced over together with the taps
  int64_t out_channels;  // of the result, per group
  int64_t out_height, out_width;
  bool nhwc;

  int64_t positions() const { return h.grid * w.grid; }
  int64_t taps() const { return h.taps * w.taps; }
  int64_t reduction() const { return channels * taps(); }
};

PROFKIT_INLINE Axis forward_axis(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                                 int64_t dilation) {
  // A single position takes no step; a slab sorted by a stride larger than the image would be mostly holes.
  return {size, out, out == 1 ? 1 : stride, kernel, -pad, dilation, 0, 1, 0, 1};
}

// Input positions i with (i + pad) % stride == phase. i = stride * q - pad + phase is reached from output o
// by kernel element t when i + pad = o * stride + t * dilation. Taps run from the last such t down, so that o
// ascends.
PROFKIT_INLINE Axis gradient_axis(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad,
                                  int64_t dilation, int64_t phase) {
  int64_t first_tap = -1, period = 0, taps = 0, last = 0;
  for (int64_t t = 0; t < kernel; ++t) {
    if (t * dilation % stride != phase) continue;
    if (first_tap < 0) first_tap = t;
    if (taps == 1) period = t - first_tap;
    last = t;
    ++taps;
  }
  const int64_t q0 = pad > phase ? ceil_div(pad - phase, stride) : 0;
  const int64_t out_first = stride * q0 + phase - pad;
  const int64_t grid = out_first < size ? ceil_div(size - out_first, stride) : 0;
  if (taps == 0) return {out, grid, 1, 0, 0, 0, 0, 0, out_first, stride};
  // Exact divisions: all such t * dilation are equal to phase modulo stride.
  const int64_t first = q0 + (phase - last * dilation) / stride;
  return {out, grid, 1, taps, first, period * dilation / stride, last, -period, out_first, stride};
}

PROFKIT_INLINE Gather forward_gather(const profkit_conv2d_params& p) {
  return {forward_axis(p.height, p.out_h, p.kernel_h, p.stride_h, p.pad_top, p.dilation_h),
          forward_axis(p.width, p.out_w, p.kernel_w, p.stride_w, p.pad_left, p.dilation_w),
          p.batch,
          p.groups,
          p.in_channels / p.groups,
          p.out_channels / p.groups,
          p.out_h,
          p.out_w,
          p.layout == PROFKIT_NHWC};
}

PROFKIT_INLINE Gather gradient_gather(const profkit_conv2d_params& p, int64_t phase_h, int64_t phase_w) {
  return {gradient_axis(p.height, p.out_h, p.kernel_h, p.stride_h, p.pad_top, p.dilation_h, phase_h),
          gradient_axis(p.width, p.out_w, p.kernel_w, p.stride_w, p.pad_left, p.dilation_w, phase_w),
          p.batch,
          p.groups,
          p.out_channels / p.groups,
          p.in_channels / p.groups,
          p.height,
          p.width,
          p.layout == PROFKIT_NHWC};
}

// One gather per phase for the input gradient, a single one otherwise. The first min(stride, size) positions
// of an axis have different residues, and no other residue has a position: phase n is that of position n.
PROFKIT_INLINE int64_t phase_count(const profkit_conv2d_params& p) {
  if (p.direction != PROFKIT_INPUT_GRADIENT) return 1;
  return smaller(p.stride_h, p.height) * smaller(p.stride_w, p.width);
}
PROFKIT_INLINE Gather phase_gather(const profkit_conv2d_params& p, int64_t phase) {
  if (p.direction != PROFKIT_INPUT_GRADIENT) return forward_gather(p);
  const int64_t columns = smaller(p.stride_w, p.width);
  return gradient_gather(p, (phase / columns + p.pad_top) % p.stride_h,
                         (phase % columns + p.pad_left) % p.stride_w);
}

// Weights [out][in/groups][kh][kw] as seen by a gather: `result` is a channel of its result, `source` of its
// source.
template <class T>
struct Weights {
  const T* data;
  int64_t result_stride, source_stride, row_stride;

  Weights(const profkit_conv2d_params& p, const Gather& g, const void* weights, int64_t group) {
    const int64_t area = p.kernel_h * p.kernel_w, filter = p.in_channels / p.groups * area;
    const bool forward = p.direction != PROFKIT_INPUT_GRADIENT;
    data = static_cast<const T*>(weights) + group * (p.out_channels / p.groups) * filter;
    data += g.h.kernel_first * p.kernel_w + g.w.kernel_first;
    result_stride = forward ? filter : area;
    source_stride = forward ? area : filter;
    row_stride = p.kernel_w;
  }
  // Offset of tap (th, tw) of source channel c.
  PROFKIT_INLINE int64_t offset(const Gather& g, int64_t c, int64_t th, int64_t tw) const {
    return c * source_stride + th * g.h.kernel_step * row_stride + tw * g.w.kernel_step;
  }
};

// Bias per result channel (null: none) and ReLU, which the forward direction alone ends with.
template <class T>
struct Ending {
  const T* bias;
  bool relu;

  Ending(const profkit_conv2d_params& p, const CpuCall& call) {
    const bool forward = p.direction == PROFKIT_FORWARD;
    bias = p.bias && forward ? static_cast<const T*>(call.inputs[2]) : nullptr;
    relu = p.activation == PROFKIT_RELU && forward;
  }
  const T* bias_of(const Gather& g, int64_t group) const {
    return bias ? bias + group * g.out_channels : nullptr;
  }
};

// A position of the whole batch, stepped along without divisions.
struct Position {
  int64_t image, qh, qw;

  Position(const Gather& g, int64_t index)
      : image(index / g.positions()), qh(index % g.positions() / g.w.grid), qw(index % g.w.grid) {}
  PROFKIT_INLINE void advance(const Gather& g) {
    if (++qw < g.w.grid) return;
    qw = 0;
    if (++qh < g.h.grid) return;
    qh = 0;
    ++image;
  }
};

// Offset in the result tensor of channel 0 of `group` at a position.
PROFKIT_INLINE int64_t result_offset(const Gather& g, const Position& at, int64_t group) {
  const int64_t channels = g.out_channels * g.groups, area = g.out_height * g.out_width;
  const int64_t pixel =
      (g.h.out_first + at.qh * g.h.out_step) * g.out_width + g.w.out_first + at.qw * g.w.out_step;
  return at.image * channels * area +
         (g.nhwc ? pixel * channels + group * g.out_channels : group * g.out_channels * area + pixel);
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
