// Lines of elements: functions of some arrays, element by element, into one array or several. A result that
// is larger than the last cache goes past the caches. A thread owns a piece of the line, cut at cache lines.
// Bottleneck: memory.
#pragma once

#include "kernels/cpu/work.inl"

namespace profkit {
namespace PROFKIT_ISA {

constexpr int64_t kLineBytes = 64;
// Of a block of results on its way past the caches.
constexpr int64_t kBlockBytes = 8192;

// Whether arrays that are read or written once are better kept out of the caches: they do not fit anyway.
PROFKIT_INLINE bool passes_caches(const CpuCall& call, int64_t bytes) {
  return bytes > call.blocking.l3_bytes;
}

// Elements before the first whole vector of `to`.
template <class T>
PROFKIT_INLINE int64_t elements_to_alignment(const T* to) {
  constexpr uintptr_t size = sizeof(Vec<T>);
  const uintptr_t over = reinterpret_cast<uintptr_t>(to) % size;
  return static_cast<int64_t>((size - over) % size / sizeof(T));
}

// A copy past the caches.
template <class T>
PROFKIT_INLINE void stream_block(T* to, const T* from, int64_t count) {
  constexpr int64_t width = kWidth<T>;
  int64_t i = smaller(count, elements_to_alignment(to));
  if (i > 0) store_first(to, load_first(from, i), i);
  for (; i + width <= count; i += width) stream(to + i, load(from + i));
  if (i < count) store_first(to + i, load_first(from + i, count - i), count - i);
}

// `of` takes a vector of each input and makes one of each output.
template <class T, int Inputs, int Outputs, class Of>
PROFKIT_INLINE void map_block(const T* const (&in)[Inputs], T* const (&out)[Outputs], int64_t count,
                              const Of& of) {
  constexpr int64_t width = kWidth<T>;
  Vec<T> x[Inputs], y[Outputs];
  int64_t i = 0;
  for (; i + width <= count; i += width) {
#pragma GCC unroll 16
    for (int k = 0; k < Inputs; ++k) x[k] = load(in[k] + i);
    of(x, y);
#pragma GCC unroll 16
    for (int k = 0; k < Outputs; ++k) store(out[k] + i, y[k]);
  }
  if (i == count) return;
#pragma GCC unroll 16
  for (int k = 0; k < Inputs; ++k) x[k] = load_first(in[k] + i, count - i);
  of(x, y);
#pragma GCC unroll 16
  for (int k = 0; k < Outputs; ++k) store_first(out[k] + i, y[k], count - i);
}

// A piece of a line. Whoever lets it stream calls finish_streaming when all pieces are done.
template <class T, int Inputs, int Outputs, class Of>
void map_piece(const T* const (&inputs)[Inputs], T* const (&outputs)[Outputs], Part part, bool streams,
               const Of& of) {
  const T* in[Inputs];
  T* out[Outputs];
  for (int k = 0; k < Inputs; ++k) in[k] = inputs[k] + part.begin;
  for (int k = 0; k < Outputs; ++k) out[k] = outputs[k] + part.begin;
  if (!streams) return map_block<T>(in, out, part.size(), of);
  constexpr int64_t most = kBlockBytes / Outputs / kLineBytes * kLineBytes / static_cast<int64_t>(sizeof(T));
  alignas(64) T blocks[Outputs][most];
  T* block[Outputs];
  for (int k = 0; k < Outputs; ++k) block[k] = blocks[k];
  // Blocks of the first output begin at whole vectors.
  int64_t count = elements_to_alignment(out[0]);
  if (count == 0) count = most;
  for (int64_t left = part.size(); left > 0; left -= count, count = most) {
    count = smaller(count, left);
    map_block<T>(in, block, count, of);
    for (int k = 0; k < Inputs; ++k) in[k] += count;
    for (int k = 0; k < Outputs; ++k) {
      stream_block(out[k], block[k], count);
      out[k] += count;
    }
  }
}

// All of a line of `count` elements.
template <class T, int Inputs, int Outputs, class Of>
void map_line(const CpuCall& call, int64_t count, const T* const (&in)[Inputs], T* const (&out)[Outputs],
              const Of& of) {
  constexpr int64_t unit = kLineBytes / static_cast<int64_t>(sizeof(T));
  const bool streams = passes_caches(call, (Inputs + Outputs) * count * static_cast<int64_t>(sizeof(T)));
  on_threads(call.threads, [&](int thread) {
    map_piece<T>(in, out, part_of(count, unit, call.threads, thread), streams, of);
    finish_streaming();
  });
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
