// Pooling of NCHW images to one value each, as before the last layer of a network: a plane is one line of
// memory, and as many planes as a vector has elements are reduced side by side, so that one transpose ends
// them all.
#pragma once

#include "kernels/cpu/entry.h"
#include "kernels/pool2d/cpu/joins.inl"
#include "kernels/pool2d/params.h"

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
PROFKIT_INLINE bool pools_whole_planes(const profkit_pool2d_params& p) {
  const Inside rows(0, p.stride_h, p.pad_top, p.kernel_h, p.height);
  const Inside columns(0, p.stride_w, p.pad_left, p.kernel_w, p.width);
  return p.layout == PROFKIT_NCHW && p.out_h == 1 && p.out_w == 1 && rows.count() == p.height &&
         columns.count() == p.width && p.height * p.width >= kWidth<T> && p.batch * p.channels >= kWidth<T>;
}

template <class T, class How>
PROFKIT_INLINE bool pool_group(const T* planes, int64_t length, T* out, T share) {
  constexpr int width = kWidth<T>;
  const int64_t rest = length % width;
  typename VecOf<T>::mask lanes;
  for (int i = 0; i < width; ++i) lanes[i] = i >= width - rest ? -1 : 0;
  Vec<T> joined[width], watch = {};
#pragma GCC unroll 16
  for (int plane = 0; plane < width; ++plane) {
    const T* line = planes + plane * length;
    Vec<T> one = load(line);
    if (How::is_watched) watch += one;
    for (int64_t i = width; i + width <= length; i += width) {
      const Vec<T> values = load(line + i);
      one = How::join(one, values);
      if (How::is_watched) watch += values;
    }
    // The last vector overlaps: elements that were there already take no part.
    const Vec<T> values = lanes ? load(line + length - width) : broadcast(How::start());
    one = How::join(one, values);
    if (How::is_watched) watch += lanes ? values : Vec<T>{};
    joined[plane] = one;
  }
  if (How::is_watched && may_hold_nan<T>(watch)) return false;
  transpose<T>(joined);
#pragma GCC unroll 16
  for (int i = 1; i < width; ++i) joined[0] = How::join(joined[0], joined[i]);
  store(out, joined[0] * broadcast(share));
  return true;
}

template <class T, class How>
void pool_whole_planes(const profkit_pool2d_params& p, const CpuCall& call, int thread) {
  constexpr int64_t width = kWidth<T>;
  const T* input = static_cast<const T*>(call.inputs[0]);
  T* output = static_cast<T*>(call.output);
  const int64_t planes = p.batch * p.channels, length = p.height * p.width;
  const T share = p.mode == PROFKIT_AVERAGE ? 1 / static_cast<T>(length) : T(1);
  // Threads own groups; the last group reaches back to planes of the group before, of the same thread.
  const int64_t groups = planes / width;
  const Part part = part_of(groups, 1, call.threads, thread);
  const auto pool = [&](int64_t first) {
    if (!pool_group<T, How>(input + first * length, length, output + first, share)) {
      pool_group<T, ExactLargest<T>>(input + first * length, length, output + first, share);
    }
  };
  for (int64_t group = part.begin; group < part.end; ++group) pool(group * width);
  if (part.end == groups && part.begin < part.end && planes % width != 0) pool(planes - width);
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
