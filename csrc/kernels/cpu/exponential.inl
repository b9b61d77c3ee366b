// exp of a vector of numbers that are not above 0, as a softmax needs it: e^x = 2^n * e^r with |r| <=
// ln(2)/2, the latter by a polynomial whose error is below the type's own rounding. Results below the
// smallest normal number are 0; NaN propagates. And what is made of it: sigmoid, tanh, and an error function.
#pragma once

#include "kernels/cpu/simd.inl"

namespace profkit {
namespace PROFKIT_ISA {

// Adding `kRounder` rounds to an integer: its last bit counts ones, and it includes the exponent bias. ln(2)
// is in two parts, so that n * kLn2High is exact.
template <class T>
struct Exponential;
template <>
struct Exponential<float> {
  static constexpr int kDegree = 5, kFractionBits = 23, kBias = 127;
  static constexpr float kRounder = 12582912.0f + kBias, kLowest = -87.0f;
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  // Smallest largest relative error (1.0e-7) among 1 + r + a r^2 + b r^3 + c r^4 + d r^5.
  static constexpr float coefficient(int i) {
    constexpr float list[] = {1, 1, 0.499992311f, 0.166671157f, 0.0418903306f, 0.00831250101f};
    return list[i];
  }
};
template <>
struct Exponential<double> {
  static constexpr int kDegree = 13, kFractionBits = 52, kBias = 1023;
  static constexpr double kRounder = 6755399441055744.0 + kBias, kLowest = -708.0;
  static constexpr double kLn2High = 6.93145751953125e-1, kLn2Low = 1.42860682030941723212e-6;
  // The Taylor series: the first term that is left out is 4e-18.
  static constexpr double coefficient(int i) {
    double factorial = 1;
    for (int k = 2; k <= i; ++k) factorial *= k;
    return 1 / factorial;
  }
};

// e^x = 2^n (1 + slope r), as these three; x is not above 0.
template <class T>
struct ExponentialParts {
  Vec<T> power, slope, r;
};

template <class T>
PROFKIT_INLINE ExponentialParts<T> exponential_parts(Vec<T> x) {
  using E = Exponential<T>;
  using Bits = typename VecOf<T>::mask;
  const Vec<T> rounder = broadcast(E::kRounder);
  const Vec<T> shifted = x * broadcast(static_cast<T>(1.44269504088896340736)) + rounder,
               n = shifted - rounder;
  const Vec<T> r = (x - n * broadcast(E::kLn2High)) - n * broadcast(E::kLn2Low);
  Vec<T> sum = broadcast(E::coefficient(E::kDegree));
#pragma GCC unroll 16
  for (int i = E::kDegree - 1; i >= 1; --i) sum = sum * r + broadcast(E::coefficient(i));
  // The low bits of `shifted` are n with the exponent's bias; in the place of an exponent they are 2^n.
  Bits bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits <<= E::kFractionBits;
  Vec<T> power;
  __builtin_memcpy(&power, &bits, sizeof bits);
  return {power, sum, r};
}

template <class T>
PROFKIT_INLINE Vec<T> exponential(Vec<T> x) {
  const ExponentialParts<T> parts = exponential_parts<T>(x);
  // A product, so that NaN propagates; the comparison is false for it.
  return x < broadcast(Exponential<T>::kLowest)
             ? Vec<T>{}
             : (parts.slope * parts.r + broadcast(static_cast<T>(1))) * parts.power;
}

// e^x - 1 of numbers that are not above 0, right in all its digits also where x is small.
template <class T>
PROFKIT_INLINE Vec<T> exponential_minus_one(Vec<T> x) {
  const ExponentialParts<T> parts = exponential_parts<T>(x);
  const Vec<T> one = broadcast(static_cast<T>(1));
  return x < broadcast(Exponential<T>::kLowest) ? -one
                                                : parts.slope * parts.r * parts.power + (parts.power - one);
}

template <class T>
PROFKIT_INLINE Vec<T> minus_magnitude(Vec<T> x) {
  return x < Vec<T>{} ? x : -x;
}

template <class T>
PROFKIT_INLINE Vec<T> sigmoid(Vec<T> x) {
  const Vec<T> power = exponential<T>(minus_magnitude<T>(x));
  const Vec<T> large = broadcast(static_cast<T>(1)) / (broadcast(static_cast<T>(1)) + power);
  return x < Vec<T>{} ? power * large : large;
}

template <class T>
PROFKIT_INLINE Vec<T> hyperbolic_tangent(Vec<T> x) {
  const Vec<T> e = exponential_minus_one<T>(minus_magnitude<T>(x) * broadcast(static_cast<T>(2)));
  const Vec<T> magnitude = -e / (e + broadcast(static_cast<T>(2)));
  return x < Vec<T>{} ? -magnitude : magnitude;
}

// min(1, max(0, 0.2 x + 0.5)); NaN propagates.
template <class T>
PROFKIT_INLINE Vec<T> hard_sigmoid(Vec<T> x) {
  const Vec<T> one = broadcast(static_cast<T>(1));
  const Vec<T> line = broadcast(static_cast<T>(0.2)) * x + broadcast(static_cast<T>(0.5));
  return line > one ? one : relu<T>(line);
}

// Abramowitz and Stegun 7.1.26, whose error of 1.5e-7 is enough for float only.
PROFKIT_INLINE Vec<float> error_function(Vec<float> x) {
  const Vec<float> u = -minus_magnitude<float>(x);
  const Vec<float> t = broadcast(1.0f) / (broadcast(0.3275911f) * u + broadcast(1.0f));
  constexpr float coefficients[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};
  Vec<float> sum = {};
#pragma GCC unroll 5
  for (const float coefficient : coefficients) sum = sum * t + broadcast(coefficient);
  const Vec<float> magnitude = broadcast(1.0f) - sum * t * exponential<float>(-u * u);
  return x < Vec<float>{} ? -magnitude : magnitude;
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
