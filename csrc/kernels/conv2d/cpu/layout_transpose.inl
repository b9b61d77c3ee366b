// Layout transpose of images, planes (NCHW) to pixels (NHWC) and back, for kernels that multiply runs of
// channels: what torch does too when it is given planes. Squares of a vector's width are transposed in
// registers. Threads share chunks of pixels. Bottleneck: memory; once per element, where a convolution reads
// it once per tap.
#pragma once

#include "kernels/conv2d/cpu/gather/geometry.inl"

namespace profkit {
namespace PROFKIT_ISA {

// to[column][row] = from[row][column], a square of a vector's width at most.
template <class T>
PROFKIT_INLINE void transpose_square(T* to, int64_t to_stride, const T* from, int64_t from_stride,
                                     int64_t rows, int64_t columns) {
  constexpr int64_t width = kWidth<T>;
  if (rows < width || columns < width) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * from_stride + c];
    }
    return;
  }
  Vec<T> square[width];
#pragma GCC unroll 16
  for (int r = 0; r < width; ++r) square[r] = load(from + r * from_stride);
  transpose<T>(square);
#pragma GCC unroll 16
  for (int c = 0; c < width; ++c) store(to + c * to_stride, square[c]);
}

// Two to four planes, as of a colour image, become pixels: two interleaves make vectors of four channels per
// pixel, and each store overwrites the excess lanes of the one before.
template <class T>
void transpose_few_planes(T* to, const T* from, int64_t plane, int64_t channels, int64_t pixels) {
  constexpr int64_t width = kWidth<T>, padded = 4;
  alignas(64) T group[padded * width];
  int64_t i = 0;
  // The last pixel is copied exactly: no later store would overwrite what follows it.
  for (; i + width < pixels; i += width) {
    const T* first = from + i;
    const Vec<T> a = load(first), b = load(first + plane);
    const Vec<T> c = channels > 2 ? load(first + 2 * plane) : Vec<T>{};
    const Vec<T> d = channels > 3 ? load(first + 3 * plane) : Vec<T>{};
    const Vec<T> even[2] = {interleave<T, false>(a, c), interleave<T, true>(a, c)},
                 odd[2] = {interleave<T, false>(b, d), interleave<T, true>(b, d)};
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      store(group + 2 * half * width, interleave<T, false>(even[half], odd[half]));
      store(group + (2 * half + 1) * width, interleave<T, true>(even[half], odd[half]));
    }
    T* pixel = to + i * channels;
#pragma GCC unroll 16
    for (int p = 0; p < width; ++p) memcpy(pixel + p * channels, group + p * padded, padded * sizeof(T));
  }
  for (; i < pixels; ++i) {
    for (int64_t c = 0; c < channels; ++c) to[i * channels + c] = from[c * plane + i];
  }
}

// Calls square(channel, channels, pixel, pixels) until all are covered; where one would hang over the end, it
// begins earlier and does some of them again. Planes are the outer loop: they lie pages apart, and a vector's
// worth of them is as much as the processor keeps the addresses of.
template <class T, class Square>
PROFKIT_INLINE void for_each_square(int64_t channels, int64_t pixels, const Square& square) {
  constexpr int64_t width = kWidth<T>;
  const int64_t last_c = larger(0, channels - width), last_i = larger(0, pixels - width);
  for (int64_t c = 0; c < channels; c += width) {
    const int64_t from_c = smaller(c, last_c);
    for (int64_t i = 0; i < pixels; i += width) {
      square(from_c, smaller(width, channels), smaller(i, last_i), smaller(width, pixels));
    }
  }
}

template <class T>
void planes_to_pixels_of(T* to, const T* from, int64_t plane, int64_t channels, int64_t pixels) {
  if (channels > 1 && channels <= 4) return transpose_few_planes<T>(to, from, plane, channels, pixels);
  for_each_square<T>(channels, pixels, [&](int64_t c, int64_t rows, int64_t i, int64_t columns) {
    transpose_square<T>(to + i * channels + c, channels, from + c * plane + i, plane, rows, columns);
  });
}
template <class T>
void pixels_to_planes_of(T* to, int64_t plane, const T* from, int64_t channels, int64_t pixels) {
  for_each_square<T>(channels, pixels, [&](int64_t c, int64_t columns, int64_t i, int64_t rows) {
    transpose_square<T>(to + c * plane + i, plane, from + i * channels + c, channels, rows, columns);
  });
}

struct ImageSizes {
  int64_t batch, channels, area;
  int64_t elements() const { return checked_product(checked_product(batch, channels), area); }
};

template <class T>
void transpose_images(T* to, const T* from, const ImageSizes& s, bool to_pixels, int threads) {
  constexpr int64_t chunk = 128;  // pixels; a chunk's lines of all channels stay in the first two caches
  const int64_t chunks = ceil_div(s.area, chunk);
  on_threads(threads, [&](int thread) {
    const Part part = part_of(s.batch * chunks, 1, threads, thread);
    for (int64_t index = part.begin; index < part.end; ++index) {
      const int64_t image = index / chunks * s.channels * s.area, first = index % chunks * chunk;
      const int64_t pixels = smaller(chunk, s.area - first);
      const T* source = from + image + first * (to_pixels ? 1 : s.channels);
      T* target = to + image + first * (to_pixels ? s.channels : 1);
      to_pixels ? planes_to_pixels_of<T>(target, source, s.area, s.channels, pixels)
                : pixels_to_planes_of<T>(target, s.area, source, s.channels, pixels);
    }
  });
}

// A convolution of planes as one of pixels: the same numbers, in NHWC, some images at a time, so that
// transposed ones are still in the second cache when they are read.
template <class T>
struct NhwcConvolution {
  profkit_conv2d_params params;
  ImageSizes source, result;  // of as many images as are transposed at a time
  T *source_pixels, *result_pixels;

  NhwcConvolution(const profkit_conv2d_params& p, int64_t images, Arena& arena) : params(p) {
    params.layout = PROFKIT_NHWC;
    params.batch = images;
    const ImageSizes x{images, p.in_channels, p.height * p.width};
    const ImageSizes y{images, p.out_channels, p.out_h * p.out_w};
    source = p.direction == PROFKIT_INPUT_GRADIENT ? y : x;
    result = p.direction == PROFKIT_INPUT_GRADIENT ? x : y;
    source_pixels = arena.take<T>(source.elements());
    result_pixels = arena.take<T>(result.elements());
  }

  // As many images as the threads' second caches hold half of; all of them where weights cannot be packed
  // once for all.
  static int64_t images_at_a_time(const profkit_conv2d_params& p, int threads, const CpuBlocking& blocking) {
    if (p.direction != PROFKIT_FORWARD) return p.batch;
    const int64_t image = p.in_channels * p.height * p.width + p.out_channels * p.out_h * p.out_w;
    const int64_t held = blocking.l2_bytes / 2 / static_cast<int64_t>(sizeof(T)) / larger(1, image);
    return smaller(p.batch, larger(1, held) * threads);
  }

  // Runs images [first, first + count) by `run(params, call)`.
  template <class Run>
  void launch(const CpuCall& call, int64_t first, int64_t count, void* workspace, const Run& run) const {
    ImageSizes from = source, to = result;
    from.batch = to.batch = count;
    profkit_conv2d_params some = params;
    some.batch = count;
    const T* x = static_cast<const T*>(call.inputs[0]) + first * source.channels * source.area;
    transpose_images<T>(source_pixels, x, from, true, call.threads);
    CpuCall inner = call;
    inner.inputs[0] = source_pixels;
    inner.output = result_pixels;
    inner.workspace = workspace;
    run(some, inner);
    T* y = static_cast<T*>(call.output) + first * result.channels * result.area;
    transpose_images<T>(y, result_pixels, to, false, call.threads);
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
