// Images turned from planes (NCHW) to pixels (NHWC) and back, for kernels that multiply runs of channels:
// what torch does too when it is given planes. Squares of a vector's width are transposed in registers.
// Threads share chunks of pixels. Bottleneck: memory; once per element, where a convolution reads it once per
// tap.
#pragma once

#include "kernels/conv2d/cpu_geometry.inl"

namespace profkit {
namespace PROFKIT_ISA {

// to[column][row] = from[row][column]
template <class T>
void turn_matrix(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t rows,
                 int64_t columns) {
  constexpr int64_t width = kWidth<T>;
  for (int64_t i = 0; i < rows; i += width) {
    for (int64_t j = 0; j < columns; j += width) {
      if (i + width > rows || j + width > columns) {
        for (int64_t r = i; r < smaller(rows, i + width); ++r) {
          for (int64_t c = j; c < smaller(columns, j + width); ++c) {
            to[c * to_stride + r] = from[r * from_stride + c];
          }
        }
        continue;
      }
      Vec<T> square[width];
#pragma GCC unroll 16
      for (int r = 0; r < width; ++r) square[r] = load(from + (i + r) * from_stride + j);
      transpose<T>(square);
#pragma GCC unroll 16
      for (int c = 0; c < width; ++c) store(to + (j + c) * to_stride + i, square[c]);
    }
  }
}

struct ImageSizes {
  int64_t batch, channels, area;
  int64_t elements() const { return checked_product(checked_product(batch, channels), area); }
};

template <class T>
void turn_images(T* to, const T* from, const ImageSizes& s, bool to_pixels, int threads) {
  constexpr int64_t chunk = 64;  // pixels; a chunk's lines of all channels stay in the first two caches
  const int64_t chunks = ceil_div(s.area, chunk);
  on_threads(threads, [&](int thread) {
    const Part part = part_of(s.batch * chunks, 1, threads, thread);
    for (int64_t index = part.begin; index < part.end; ++index) {
      const int64_t image = index / chunks * s.channels * s.area, first = index % chunks * chunk;
      const int64_t pixels = smaller(chunk, s.area - first);
      if (to_pixels) {
        turn_matrix<T>(to + image + first * s.channels, s.channels, from + image + first, s.area, s.channels,
                       pixels);
      } else {
        turn_matrix<T>(to + image + first, s.area, from + image + first * s.channels, s.channels, pixels,
                       s.channels);
      }
    }
  });
}

// A convolution of planes as one of pixels: the same numbers, in NHWC, some images at a time, so that turned
// ones are still in the second cache when they are read.
template <class T>
struct TurnedConvolution {
  profkit_conv2d_params params;
  ImageSizes source, result;  // of as many images as are turned at a time
  T *source_pixels, *result_pixels;

  TurnedConvolution(const profkit_conv2d_params& p, int64_t images, Arena& arena) : params(p) {
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
    turn_images<T>(source_pixels, x, from, true, call.threads);
    CpuCall inner = call;
    inner.inputs[0] = source_pixels;
    inner.output = result_pixels;
    inner.workspace = workspace;
    run(some, inner);
    T* y = static_cast<T*>(call.output) + first * result.channels * result.area;
    turn_images<T>(y, result_pixels, to, false, call.threads);
  }
};

}  // namespace PROFKIT_ISA
}  // namespace profkit
