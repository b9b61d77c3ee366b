// Vectors of one instruction set: width, loads and stores, the interleave that transposes are made of.
// Enters: PROFKIT_ISA, PROFKIT_VECTOR_BYTES, PROFKIT_TILE_ROWS, PROFKIT_TILE_VECTORS (kernels/cpu/isa_*.h).
// Written with compiler vector extensions, so that one text serves every instruction set.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define PROFKIT_INLINE inline __attribute__((always_inline))
// Of a lambda, behind its parameters.
#define PROFKIT_INLINED __attribute__((always_inline))

namespace profkit {
namespace PROFKIT_ISA {

template <class T>
struct VecOf;
template <>
struct VecOf<float> {
  typedef float type __attribute__((vector_size(PROFKIT_VECTOR_BYTES)));
  typedef float unaligned __attribute__((vector_size(PROFKIT_VECTOR_BYTES), aligned(4), may_alias));
  typedef int32_t lane;
  typedef int32_t mask __attribute__((vector_size(PROFKIT_VECTOR_BYTES)));
};
template <>
struct VecOf<double> {
  typedef double type __attribute__((vector_size(PROFKIT_VECTOR_BYTES)));
  typedef double unaligned __attribute__((vector_size(PROFKIT_VECTOR_BYTES), aligned(8), may_alias));
  typedef int64_t lane;
  typedef int64_t mask __attribute__((vector_size(PROFKIT_VECTOR_BYTES)));
};
template <class T>
using Vec = typename VecOf<T>::type;

template <class T>
constexpr int kWidth = PROFKIT_VECTOR_BYTES / static_cast<int>(sizeof(T));

// The register tile: kTileRows rows of A against kTileVectors vectors of B.
constexpr int kTileRows = PROFKIT_TILE_ROWS;
constexpr int kTileVectors = PROFKIT_TILE_VECTORS;
template <class T>
constexpr int kTileColumns = kTileVectors * kWidth<T>;

template <class T>
PROFKIT_INLINE Vec<T> load(const T* p) {
  return *reinterpret_cast<const typename VecOf<T>::unaligned*>(p);
}
template <class T>
PROFKIT_INLINE void store(T* p, Vec<T> v) {
  *reinterpret_cast<typename VecOf<T>::unaligned*>(p) = v;
}
// The first `count` lanes, 0 < count < width, touching no memory behind them: by pieces of half a vector, a
// quarter ..., or by masks, which the extensions cannot express.
template <class T>
PROFKIT_INLINE void store_first(T* to, Vec<T> v, int64_t count) {
  alignas(64) T lanes[kWidth<T>];
  store(lanes, v);
  const T* from = lanes;
#pragma GCC unroll 4
  for (int piece = kWidth<T> / 2; piece > 0; piece /= 2) {
    if ((count & piece) == 0) continue;
    memcpy(to, from, static_cast<size_t>(piece) * sizeof(T));
    to += piece;
    from += piece;
  }
}
template <class T>
PROFKIT_INLINE Vec<T> load_first(const T* from, int64_t count) {
  alignas(64) T lanes[kWidth<T>] = {};
  T* to = lanes;
#pragma GCC unroll 4
  for (int piece = kWidth<T> / 2; piece > 0; piece /= 2) {
    if ((count & piece) == 0) continue;
    memcpy(to, from, static_cast<size_t>(piece) * sizeof(T));
    to += piece;
    from += piece;
  }
  return load(lanes);
}
#ifdef __AVX512F__
template <>
PROFKIT_INLINE void store_first<float>(float* to, Vec<float> v, int64_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), v);
}
template <>
PROFKIT_INLINE Vec<float> load_first<float>(const float* from, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
}
#elif defined(__AVX2__)
// Masked stores are slow on some processors, masked loads are not.
template <>
PROFKIT_INLINE Vec<float> load_first<float>(const float* from, int64_t count) {
  const VecOf<float>::mask lane = {0, 1, 2, 3, 4, 5, 6, 7};
  return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(lane < static_cast<int32_t>(count)));
}
#endif
// A whole vector to an address that is a multiple of its size, past the caches where the instruction set can:
// memory that is only written need not be read first. finish_streaming makes such stores visible to others.
template <class T>
PROFKIT_INLINE void stream(T* to, Vec<T> v) {
  store(to, v);
}
#ifdef __AVX512F__
template <>
PROFKIT_INLINE void stream<float>(float* to, Vec<float> v) {
  _mm512_stream_ps(to, v);
}
template <>
PROFKIT_INLINE void stream<double>(double* to, Vec<double> v) {
  _mm512_stream_pd(to, v);
}
#elif defined(__AVX2__)
template <>
PROFKIT_INLINE void stream<float>(float* to, Vec<float> v) {
  _mm256_stream_ps(to, v);
}
template <>
PROFKIT_INLINE void stream<double>(double* to, Vec<double> v) {
  _mm256_stream_pd(to, v);
}
#endif
PROFKIT_INLINE void finish_streaming() {
#ifdef __AVX2__
  _mm_sfence();
#endif
}
// x - 0 keeps every x, also -0, so compilers reduce it to the bare broadcast.
template <class T>
PROFKIT_INLINE Vec<T> broadcast(T x) {
  return x - Vec<T>{};
}
// NaN passes through, as in the frameworks.
template <class T>
PROFKIT_INLINE Vec<T> relu(Vec<T> v) {
  return v < Vec<T>{} ? Vec<T>{} : v;
}

PROFKIT_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
PROFKIT_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
PROFKIT_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
PROFKIT_INLINE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Lanes of a, then of b, by their numbers.
#if defined(__clang__) || __GNUC__ >= 12
#define PROFKIT_SHUFFLE(T, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else  // older GCC: its own spelling
#define PROFKIT_SHUFFLE(T, a, b, ...) __builtin_shuffle(a, b, typename VecOf<T>::mask{__VA_ARGS__})
#endif

// The numbers of a vector's lanes as template arguments; std::integer_sequence is in a header that is not for
// code of an instruction set.
template <int... I>
struct Lanes {};
template <int Count, int... I>
struct CountedLanes : CountedLanes<Count - 1, Count - 1, I...> {};
template <int... I>
struct CountedLanes<0, I...> {
  using type = Lanes<I...>;
};
template <class T>
using LanesOf = typename CountedLanes<kWidth<T>>::type;

// One step of a perfect shuffle: the low (or high) halves of a and b, element by element in turn.
template <class T, bool High, int... I>
PROFKIT_INLINE Vec<T> interleaved(Vec<T> a, Vec<T> b, Lanes<I...>) {
  return PROFKIT_SHUFFLE(T, a, b, ((High ? kWidth<T> / 2 : 0) + I / 2 + I % 2 * kWidth<T>)...);
}
template <class T, bool High>
PROFKIT_INLINE Vec<T> interleave(Vec<T> a, Vec<T> b) {
  return interleaved<T, High>(a, b, LanesOf<T>());
}

// rows[i][j] -> rows[j][i]. log2(width) perfect shuffles of row i with row i + width/2 are a transpose.
template <class T>
PROFKIT_INLINE void transpose(Vec<T> (&rows)[kWidth<T>]) {
  constexpr int width = kWidth<T>;
#pragma GCC unroll 4
  for (int step = 1; step < width; step *= 2) {
    Vec<T> next[width];
#pragma GCC unroll 16
    for (int i = 0; i < width / 2; ++i) {
      next[2 * i] = interleave<T, false>(rows[i], rows[i + width / 2]);
      next[2 * i + 1] = interleave<T, true>(rows[i], rows[i + width / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < width; ++i) rows[i] = next[i];
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
