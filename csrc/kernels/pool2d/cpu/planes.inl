// Pooling of NCHW images, one direction after the other, some kilobytes of rows at a time: first straight
// down, vectors along the width, into rows with room for the padding; then along these rows. Where windows do
// not overlap and leave nothing out, all rows of a piece are one long row. Enters one of the joins.
#pragma once

#include "kernels/cpu/entry.h"
#include "kernels/pool2d/cpu/rows.inl"
#include "kernels/pool2d/params.h"

namespace profkit {
namespace PROFKIT_ISA {

// Where the rows between the two directions lie.
struct RowPlan {
  int64_t pitch;   // elements from row to row
  int64_t rows;    // at a time: the second direction still finds the first one's rows in the first cache
  int64_t length;  // elements of a thread's rows, with what a vector may read beyond the last
  bool is_flat;    // the end of a row is the beginning of the next one, for the result too
};

template <class T>
PROFKIT_INLINE RowPlan row_plan(const profkit_pool2d_params& p) {
  constexpr int64_t width = kWidth<T>, piece = 8192 / static_cast<int64_t>(sizeof(T));
  const bool flat = p.pad_left == 0 && p.kernel_w <= p.stride_w && p.width == p.out_w * p.stride_w;
  const int64_t reach = larger(p.pad_left + p.width, (p.out_w - 1) * p.stride_w + p.kernel_w);
  const int64_t pitch = flat ? p.width : round_up(reach, width);
  const int64_t rows = smaller(larger(1, piece / pitch), p.batch * p.channels * p.out_h);
  return {pitch, rows, round_up(rows * pitch + p.pad_left + p.stride_w * width + p.kernel_w, width), flat};
}

template <class T>
PROFKIT_INLINE Vec<T> load_strided(const T* from, int64_t stride) {
  Vec<T> values = {};
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i) values[i] = from[i * stride];
  return values;
}

// One vector of results from the row that starts at the first one's window. Kernel 0: p.kernel_w; Stride 0:
// p.stride_w.
template <class T, class How, int Kernel, int Stride>
PROFKIT_INLINE Vec<T> join_along(const profkit_pool2d_params& p, const T* row) {
  constexpr int64_t width = kWidth<T>;
  const int64_t kernel = Kernel ? Kernel : p.kernel_w;
  if (Stride == 2) {
    using Second = EverySecond<T>;
    Vec<T> joined = {};
#pragma GCC unroll 4
    for (int64_t w = 0; w < kernel; w += 2) {
      const Vec<T> a = load(row + w), b = load(row + w + width);
      const Vec<T> even = Second::template of<0>(a, b, LanesOf<T>());
      joined = w == 0 ? even : How::join(joined, even);
      if (w + 1 < kernel) joined = How::join(joined, Second::template of<1>(a, b, LanesOf<T>()));
    }
    return Second::in_order(joined, LanesOf<T>());
  }
  Vec<T> joined = Stride == 1 ? load(row) : load_strided(row, p.stride_w);
#pragma GCC unroll 4
  for (int64_t w = 1; w < kernel; ++w) {
    joined = How::join(joined, Stride == 1 ? load(row + w) : load_strided(row + w, p.stride_w));
  }
  return joined;
}

// `count` results along one row. `room` is how much of the output may be written from here on: what comes
// after `count` is written again later.
template <class T, class How, int Kernel, int Stride>
PROFKIT_INLINE void finish_row(const profkit_pool2d_params& p, const T* row, T* out, int64_t count,
                               int64_t room) {
  constexpr int64_t width = kWidth<T>;
  const int64_t stride = Stride ? Stride : p.stride_w;
  int64_t x = 0;
  for (; x + width <= count; x += width) {
    store(out + x, join_along<T, How, Kernel, Stride>(p, row + x * stride));
  }
  if (x == count) return;
  if (x > 0) x = count - width;
  const Vec<T> last = join_along<T, How, Kernel, Stride>(p, row + x * stride);
  room - x >= width ? store(out + x, last) : store_some(out + x, last, count - x);
}

// Lines first..last of the result; whether what was joined without regard to NaNs must be done again.
template <class T, class How, int Kernel, int Stride>
PROFKIT_INLINE bool pool_lines(const profkit_pool2d_params& p, const RowPlan& plan, const T* input, T* output,
                               T* rows, int64_t first, int64_t last, int64_t end) {
  const T* input_end = input + p.batch * p.channels * p.height * p.width;
  Vec<T> watch[2] = {};
  int64_t plane = first / p.out_h, y = first % p.out_h;
  for (int64_t line = first; line < last; ++line) {
    const Inside inside(y, p.stride_h, p.pad_top, p.kernel_h, p.height);
    const T* from = input + (plane * p.height + inside.begin) * p.width;
    T* to = rows + (line - first) * plan.pitch + p.pad_left;
    join_rows<T, How>(from, p.width, inside.count(), p.width, input_end, to, watch);
    if (++y == p.out_h) y = 0, ++plane;
  }
  if (How::is_watched && may_hold_nan<T>(watch[0] + watch[1])) return false;
  if (plan.is_flat) {
    const int64_t count = (last - first) * p.out_w;
    finish_row<T, How, Kernel, Stride>(p, rows, output + first * p.out_w, count, count);
    return true;
  }
  for (int64_t line = first; line < last; ++line) {
    finish_row<T, How, Kernel, Stride>(p, rows + (line - first) * plan.pitch, output + line * p.out_w,
                                       p.out_w, (end - line) * p.out_w);
  }
  return true;
}

// Sums become averages; `shares` has one over the columns inside the image for each place along a row.
template <class T>
PROFKIT_INLINE void divide_lines(const profkit_pool2d_params& p, T* output, const T* shares, int64_t first,
                                 int64_t last) {
  for (int64_t line = first; line < last; ++line) {
    const Inside inside(line % p.out_h, p.stride_h, p.pad_top, p.kernel_h, p.height);
    const T share = 1 / static_cast<T>(inside.count());
    T* out = output + line * p.out_w;
    for (int64_t x = 0; x < p.out_w; ++x) out[x] *= share * shares[x];
  }
}

template <class T, class How, int Kernel, int Stride>
void pool_planes(const profkit_pool2d_params& p, const CpuCall& call, T* rows, T* shares, const Part& part) {
  const T* input = static_cast<const T*>(call.inputs[0]);
  T* output = static_cast<T*>(call.output);
  const RowPlan plan = row_plan<T>(p);
  for (int64_t i = 0; i < plan.length; ++i) rows[i] = How::start();
  for (int64_t x = 0; x < p.out_w && p.mode == PROFKIT_AVERAGE; ++x) {
    shares[x] = 1 / static_cast<T>(Inside(x, p.stride_w, p.pad_left, p.kernel_w, p.width).count());
  }
  for (int64_t first = part.begin; first < part.end; first += plan.rows) {
    const int64_t last = smaller(first + plan.rows, part.end);
    if (!pool_lines<T, How, Kernel, Stride>(p, plan, input, output, rows, first, last, part.end)) {
      pool_lines<T, ExactLargest<T>, 0, Stride>(p, plan, input, output, rows, first, last, part.end);
    }
    if (p.mode == PROFKIT_AVERAGE) divide_lines<T>(p, output, shares, first, last);
  }
}

// The usual windows have their own loops; all others share one.
template <class T, class How>
void pool_planes_of(const profkit_pool2d_params& p, const CpuCall& call, T* rows, T* shares,
                    const Part& part) {
  if (p.stride_w == 1) return pool_planes<T, How, 0, 1>(p, call, rows, shares, part);
  if (p.stride_w != 2) return pool_planes<T, How, 0, 0>(p, call, rows, shares, part);
  if (p.kernel_w == 2) return pool_planes<T, How, 2, 2>(p, call, rows, shares, part);
  if (p.kernel_w == 3) return pool_planes<T, How, 3, 2>(p, call, rows, shares, part);
  pool_planes<T, How, 0, 2>(p, call, rows, shares, part);
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
