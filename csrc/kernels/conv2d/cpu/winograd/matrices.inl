// The matrices of Winograd's minimal filtering, made at compile time from its interpolation points: tiles of
// `Side` source elements per axis and `Taps` filter elements give Side - Taps + 1 results.
// Points are 0, pairs +-a, and infinity. Pairs halve the work of the transforms, and these values of a gave
// the smallest errors among those tried that float32 holds exactly: with 6 points +-3/4 and +-3/2 lose less
// than half of what the usual +-1, +-2 lose; with 8 points the usual +-1/2, +-1, +-2 are the best.
#pragma once

#include "kernels/cpu/simd.inl"

namespace profkit {
namespace PROFKIT_ISA {

template <int Side>
struct WinogradPoints {
  static constexpr int kPairs = Side / 2 - 1;
  static constexpr int kInfinity = Side - 1;

  // Point 0 is zero; 2i + 1 and 2i + 2 are the pair of value(i).
  static constexpr double value(int pair) {
    constexpr double six[] = {0.75, 1.5, 0.0};
    constexpr double eight[] = {1.0, 0.5, 2.0};
    return Side == 6 ? six[pair] : eight[pair];
  }
  static constexpr double at(int point) {
    return point == 0 ? 0.0 : value((point - 1) / 2) * (point % 2 == 1 ? 1.0 : -1.0);
  }
  static constexpr double power(int point, int exponent) {
    double result = 1.0;
    for (int i = 0; i < exponent; ++i) result *= at(point);
    return result;
  }
  // Product of the differences to all other finite points.
  static constexpr double distance(int point) {
    double result = 1.0;
    for (int other = 0; other < kInfinity; ++other) {
      if (other != point) result *= at(point) - at(other);
    }
    return result;
  }
};

// Side x Side, for the source: row i holds the polynomial that is zero at every finite point but i; that of
// infinity is zero at all.
template <int Side>
struct WinogradSource {
  using Points = WinogradPoints<Side>;
  static constexpr int kRows = Side, kColumns = Side;
  static constexpr double at(int row, int column) {
    double polynomial[Side + 1] = {1.0};
    int degree = 0;
    for (int point = 0; point < Points::kInfinity; ++point) {
      if (point == row) continue;
      for (int i = degree + 1; i > 0; --i) {
        polynomial[i] = polynomial[i - 1] - Points::at(point) * polynomial[i];
      }
      polynomial[0] *= -Points::at(point);
      ++degree;
    }
    return polynomial[column];
  }
};

// Side x Taps, for the filter.
template <int Side, int Taps>
struct WinogradFilter {
  using Points = WinogradPoints<Side>;
  static constexpr int kRows = Side, kColumns = Taps;
  static constexpr double at(int row, int column) {
    if (row == Points::kInfinity) return column == Taps - 1 ? 1.0 : 0.0;
    return Points::power(row, column) / Points::distance(row);
  }
};

template <class T, class Matrix, int Row, int Column, int N>
PROFKIT_INLINE void add_terms(Vec<T>& sum, const Vec<T> (&in)[N]) {
  if constexpr (Column < N) {
    constexpr T number = static_cast<T>(Matrix::at(Row, Column));
    if constexpr (number != T(0)) sum += number * in[Column];
    add_terms<T, Matrix, Row, Column + 2>(sum, in);
  }
}
// The terms of a row with columns First, First + 2, ...
template <class T, class Matrix, int Row, int First, int N>
PROFKIT_INLINE Vec<T> every_second(const Vec<T> (&in)[N]) {
  if constexpr (First >= N) {
    return Vec<T>{};
  } else {
    constexpr T number = static_cast<T>(Matrix::at(Row, First));
    if constexpr (number == T(0)) {
      return every_second<T, Matrix, Row, First + 2>(in);
    } else {
      Vec<T> sum = number == T(1) ? in[First] : number * in[First];
      add_terms<T, Matrix, Row, First + 2>(sum, in);
      return sum;
    }
  }
}

// matrix * in, for matrices with a row per point: those of +a and -a differ in the sign of odd columns only.
template <class T, class Matrix, int Pair = 0, int N, int Side>
PROFKIT_INLINE void to_points(const Vec<T> (&in)[N], Vec<T> (&out)[Side]) {
  if constexpr (Pair == 0) {
    out[0] = every_second<T, Matrix, 0, 0>(in);
    out[Side - 1] = every_second<T, Matrix, Side - 1, (N - 1) % 2>(in);
  }
  if constexpr (2 * Pair + 2 < Side - 1) {
    const Vec<T> even = every_second<T, Matrix, 2 * Pair + 1, 0>(in);
    const Vec<T> odd = every_second<T, Matrix, 2 * Pair + 1, 1>(in);
    out[2 * Pair + 1] = even + odd;
    out[2 * Pair + 2] = even - odd;
    to_points<T, Matrix, Pair + 1>(in, out);
  }
}

template <class T, int Side, int Result, int Pair, int Count>
PROFKIT_INLINE void add_powers(Vec<T>& sum, const Vec<T> (&pairs)[Count]) {
  if constexpr (Pair < Count) {
    constexpr T number = static_cast<T>(WinogradPoints<Side>::power(2 * Pair + 1, Result));
    if constexpr (number == T(1)) {
      sum += pairs[Pair];
    } else {
      sum += number * pairs[Pair];
    }
    add_powers<T, Side, Result, Pair + 1>(sum, pairs);
  }
}

// The results from the values at the points: result k is the sum of point^k times value; infinity belongs to
// the last alone.
template <class T, int Result = 0, int Side, int Results, int Count>
PROFKIT_INLINE void results_of(const Vec<T> (&in)[Side], const Vec<T> (&sums)[Count],
                               const Vec<T> (&differences)[Count], Vec<T> (&out)[Results]) {
  if constexpr (Result < Results) {
    const auto& pairs = Result % 2 == 0 ? sums : differences;
    constexpr T number = static_cast<T>(WinogradPoints<Side>::power(1, Result));
    Vec<T> sum = number == T(1) ? pairs[0] : number * pairs[0];
    add_powers<T, Side, Result, 1>(sum, pairs);
    if constexpr (Result == 0) sum += in[0];
    if constexpr (Result == Results - 1) sum += in[Side - 1];
    out[Result] = sum;
    results_of<T, Result + 1>(in, sums, differences, out);
  }
}
template <class T, int Side, int Results>
PROFKIT_INLINE void from_points(const Vec<T> (&in)[Side], Vec<T> (&out)[Results]) {
  constexpr int count = WinogradPoints<Side>::kPairs;
  Vec<T> sums[count], differences[count];
#pragma GCC unroll 4
  for (int i = 0; i < count; ++i) {
    sums[i] = in[2 * i + 1] + in[2 * i + 2];
    differences[i] = in[2 * i + 1] - in[2 * i + 2];
  }
  results_of<T>(in, sums, differences, out);
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
