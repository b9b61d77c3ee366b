// How the threads of the reference kernels divide their loops: each owns consecutive parts.
#pragma once

#include <cstdint>

#include "kernels/registry.h"
#include "runtime/threads.h"

namespace profkit {

// Runs body(i) for all i < count.
template <class Body>
void parallel_each(int threads, int64_t count, const Body& body) {
  parallel(threads, [&](int thread) {
    const Range own = split(count, threads, thread);
    for (int64_t i = own.begin; i < own.end; ++i) body(i);
  });
}

// Runs body(i, j) for all i < outer, j < inner, for example the planes (image, channel) of a batch.
template <class Body>
void parallel_pairs(int threads, int64_t outer, int64_t inner, const Body& body) {
  parallel_each(threads, outer * inner, [&](int64_t pair) { body(pair / inner, pair % inner); });
}

// Runs body(n, c, h, w) for every element of the images of `p`; a thread owns whole planes.
template <class Params, class Body>
void parallel_pixels(int threads, const Params& p, const Body& body) {
  parallel_pairs(threads, p.batch, p.channels, [&](int64_t n, int64_t c) {
    for (int64_t h = 0; h < p.height; ++h) {
      for (int64_t w = 0; w < p.width; ++w) body(n, c, h, w);
    }
  });
}

// The output is function(a, b) of the elements of the first two inputs.
template <class T, class Function>
void elementwise(const Buffers& buffers, int threads, int64_t count, const Function& function) {
  const T *a = buffers.input_as<T>(0), *b = buffers.input_as<T>(1);
  T* output = buffers.output_as<T>();
  parallel_each(threads, count, [&](int64_t i) { output[i] = static_cast<T>(function(a[i], b[i])); });
}

}  // namespace profkit
