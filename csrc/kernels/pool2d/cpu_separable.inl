// Maximum or average under a sliding window, one direction after the other. NCHW: a row of the result is made
// from the kernel_h input rows under it, first straight down with vectors along the width, into a row with
// room for the padding, then along that row. NHWC: vectors of channels, one window at a time. A thread owns
// rows of the result. Bottleneck: loads from the first cache; for large images memory.
#pragma once

#include "kernels/cpu_entry.h"
#include "kernels/matmul/cpu_gemm.inl"

namespace profkit {
namespace PROFKIT_ISA {

// A NaN stays, as in the frameworks.
template <class T>
struct Largest {
  static PROFKIT_INLINE T start() { return -static_cast<T>(__builtin_inf()); }
  static PROFKIT_INLINE T join(T best, T value) { return (value > best) | (value != value) ? value : best; }
  static PROFKIT_INLINE Vec<T> join(Vec<T> best, Vec<T> value) {
    return (value > best) | (value != value) ? value : best;
  }
};

template <class T>
struct Sum {
  static PROFKIT_INLINE T start() { return 0; }
  static PROFKIT_INLINE T join(T sum, T value) { return sum + value; }
  static PROFKIT_INLINE Vec<T> join(Vec<T> sum, Vec<T> value) { return sum + value; }
};

// The part of a window that lies inside the image, along one direction.
struct Inside {
  int64_t begin, end;
  PROFKIT_INLINE Inside(int64_t place, int64_t stride, int64_t pad, int64_t kernel, int64_t extent)
      : begin(larger(place * stride - pad, 0)), end(smaller(place * stride - pad + kernel, extent)) {}
  PROFKIT_INLINE int64_t count() const { return end - begin; }
};

// Joins `count` lines, `pitch` apart, element by element.
template <class T, class How>
PROFKIT_INLINE void join_lines(const T* lines, int64_t pitch, int64_t count, int64_t length, T* result) {
  int64_t i = 0;
  for (; i + kWidth<T> <= length; i += kWidth<T>) {
    Vec<T> joined = load(lines + i);
    for (int64_t line = 1; line < count; ++line) joined = How::join(joined, load(lines + line * pitch + i));
    store(result + i, joined);
  }
  if (i == length) return;
  if (length >= kWidth<T>) {  // the last vector overlaps the one before: the same lines give the same result
    i = length - kWidth<T>;
    Vec<T> joined = load(lines + i);
    for (int64_t line = 1; line < count; ++line) joined = How::join(joined, load(lines + line * pitch + i));
    store(result + i, joined);
    return;
  }
  for (; i < length; ++i) {
    T joined = lines[i];
    for (int64_t line = 1; line < count; ++line) joined = How::join(joined, lines[line * pitch + i]);
    result[i] = joined;
  }
}

// Joins one line into the result.
template <class T, class How>
PROFKIT_INLINE void join_line(const T* line, int64_t length, T* result) {
  int64_t i = 0;
  for (; i + kWidth<T> <= length; i += kWidth<T>)
    store(result + i, How::join(load(result + i), load(line + i)));
  for (; i < length; ++i) result[i] = How::join(result[i], line[i]);
}

// Elements of a thread's padded row: results are made a vector at a time, so the last one may reach beyond
// the image.
template <class T>
PROFKIT_INLINE int64_t padded_row(const profkit_pool2d_params& p) {
  const int64_t reach = (round_up(p.out_w, kWidth<T>) - 1) * p.stride_w + p.kernel_w;
  return round_up(larger(p.pad_left + p.width, reach), kWidth<T>);
}

template <class T>
PROFKIT_INLINE Vec<T> load_strided(const T* from, int64_t stride) {
  if (stride == 1) return load(from);
  Vec<T> values;
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i) values[i] = from[i * stride];
  return values;
}

// Along the row; without branches, which random images would mispredict.
template <class T, class How>
PROFKIT_INLINE void finish_row(const profkit_pool2d_params& p, const T* row, int64_t rows_inside, T* out) {
  for (int64_t x = 0; x < p.out_w; x += kWidth<T>) {
    const T* window = row + x * p.stride_w;
    Vec<T> joined = load_strided(window, p.stride_w);
    for (int64_t w = 1; w < p.kernel_w; ++w) joined = How::join(joined, load_strided(window + w, p.stride_w));
    const int64_t count = smaller(kWidth<T>, p.out_w - x);
    if (count == kWidth<T>) {
      store(out + x, joined);
    } else {
      for (int64_t i = 0; i < count; ++i) out[x + i] = joined[i];
    }
  }
  if (p.mode == PROFKIT_MAX) return;
  for (int64_t x = 0; x < p.out_w; ++x) {
    out[x] /= static_cast<T>(rows_inside * Inside(x, p.stride_w, p.pad_left, p.kernel_w, p.width).count());
  }
}

template <class T, class How>
void pool_planes(const profkit_pool2d_params& p, const CpuCall& call, int thread) {
  const T* input = static_cast<const T*>(call.inputs[0]);
  T* output = static_cast<T*>(call.output);
  const int64_t length = padded_row<T>(p);
  T* row = static_cast<T*>(call.workspace) + thread * length;
  for (int64_t i = 0; i < length; ++i) row[i] = How::start();
  const Part part = part_of(p.batch * p.channels * p.out_h, 1, call.threads, thread);
  for (int64_t line = part.begin; line < part.end; ++line) {
    const int64_t plane = line / p.out_h;
    const Inside rows(line % p.out_h, p.stride_h, p.pad_top, p.kernel_h, p.height);
    const T* first = input + (plane * p.height + rows.begin) * p.width;
    join_lines<T, How>(first, p.width, rows.count(), p.width, row + p.pad_left);
    finish_row<T, How>(p, row, rows.count(), output + line * p.out_w);
  }
}

template <class T, class How>
void pool_pixels(const profkit_pool2d_params& p, const CpuCall& call, int thread) {
  const T* input = static_cast<const T*>(call.inputs[0]);
  T* output = static_cast<T*>(call.output);
  const Part part = part_of(p.batch * p.out_h, 1, call.threads, thread);
  for (int64_t line = part.begin; line < part.end; ++line) {
    const Inside rows(line % p.out_h, p.stride_h, p.pad_top, p.kernel_h, p.height);
    const T* image = input + line / p.out_h * p.height * p.width * p.channels;
    for (int64_t x = 0; x < p.out_w; ++x) {
      const Inside columns(x, p.stride_w, p.pad_left, p.kernel_w, p.width);
      T* out = output + (line * p.out_w + x) * p.channels;
      for (int64_t h = rows.begin; h < rows.end; ++h) {
        const T* pixels = image + (h * p.width + columns.begin) * p.channels;
        if (h == rows.begin) {
          join_lines<T, How>(pixels, p.channels, columns.count(), p.channels, out);
          continue;
        }
        for (int64_t w = 0; w < columns.count(); ++w) {
          join_line<T, How>(pixels + w * p.channels, p.channels, out);
        }
      }
      if (p.mode == PROFKIT_MAX) continue;
      const T share = 1 / static_cast<T>(rows.count() * columns.count());
      for (int64_t c = 0; c < p.channels; ++c) out[c] *= share;
    }
  }
}

template <class T, class How>
void pool_run(const profkit_pool2d_params& p, const CpuCall& call) {
  on_threads(call.threads, [&](int thread) {
    p.layout == PROFKIT_NCHW ? pool_planes<T, How>(p, call, thread) : pool_pixels<T, How>(p, call, thread);
  });
}

template <class T>
void pool_of(const profkit_pool2d_params& p, const CpuCall& call) {
  p.mode == PROFKIT_MAX ? pool_run<T, Largest<T>>(p, call) : pool_run<T, Sum<T>>(p, call);
}

inline size_t separable_workspace_bytes(const profkit_pool2d_params& p, int threads, const CpuBlocking&) {
  if (p.layout != PROFKIT_NCHW) return 0;
  const int64_t bytes = p.dtype == PROFKIT_FLOAT32 ? padded_row<float>(p) * 4 : padded_row<double>(p) * 8;
  return static_cast<size_t>(bytes) * static_cast<size_t>(threads);
}

inline void separable_launch(const profkit_pool2d_params& p, const CpuCall& call) {
  p.dtype == PROFKIT_FLOAT32 ? pool_of<float>(p, call) : pool_of<double>(p, call);
}

extern const CpuEntry<profkit_pool2d_params> pool2d_separable;
const CpuEntry<profkit_pool2d_params> pool2d_separable = {separable_workspace_bytes, separable_launch};

}  // namespace PROFKIT_ISA
}  // namespace profkit
