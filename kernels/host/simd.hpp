// What the inner loops of attention and of products of few rows are made of.
// SPDX-License-Identifier: Apache-2.0
// Vectors fill a register; 2^x, transposition and small packed products use them.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numbers>
#include <type_traits>
#include <utility>
#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

#include "base/split.hpp"

namespace trireme::kernels::simd {

#if defined(__AVX512F__)
inline constexpr int register_bytes = 64, registers = 32;
#elif defined(__AVX__)
inline constexpr int register_bytes = 32, registers = 16;
#elif defined(__aarch64__)
inline constexpr int register_bytes = 16, registers = 32;
#else
inline constexpr int register_bytes = 16, registers = 16;
#endif

template <class A>
inline constexpr int lanes = register_bytes / static_cast<int>(sizeof(A));

template <class A>
struct VectorOf {
  typedef A type __attribute__((vector_size(register_bytes)));
};
template <class A>
using Vector = typename VectorOf<A>::type;
// Integers of the size of A: bits of a vector of A, and what comparisons give.
template <class A>
using Bits = std::conditional_t<sizeof(A) == 8, std::int64_t, std::int32_t>;

template <class A>
[[gnu::always_inline]] inline Vector<A> load_vector(const A* from) {
  Vector<A> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class A>
[[gnu::always_inline]] inline void store_vector(A* to, Vector<A> v) {
  std::memcpy(to, &v, sizeof v);
}

template <class A>
[[gnu::always_inline]] inline Vector<A> broadcast(A x) {
  return [x]<std::size_t... I>(std::index_sequence<I...>) {
    return Vector<A>{(static_cast<void>(I), x)...};
  }
  (std::make_index_sequence<lanes<A>>());
}

// 0, 1, 2, ...
template <class A>
[[gnu::always_inline]] inline Vector<Bits<A>> lane_indices() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return Vector<Bits<A>>{static_cast<Bits<A>>(I)...};
  }
  (std::make_index_sequence<lanes<A>>());
}

// The greater of each pair; b where either is NaN.
template <class A>
[[gnu::always_inline]] inline Vector<A> greater(Vector<A> a, Vector<A> b) {
  return a > b ? a : b;
}

// a b + c, rounded once where the processor can. Left to the compiler it may be rounded
// twice: GCC tuned for Zen to Zen 3 takes apart what is added to the same sum again and
// again, here and not there, and sums that ought to have the same bits have not.
template <class A>
[[gnu::always_inline]] inline Vector<A> multiply_add(Vector<A> a, Vector<A> b,
                                                     Vector<A> c) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<A, float>)
    return std::bit_cast<Vector<A>>(_mm512_fmadd_ps(
        std::bit_cast<__m512>(a), std::bit_cast<__m512>(b), std::bit_cast<__m512>(c)));
  else
    return std::bit_cast<Vector<A>>(_mm512_fmadd_pd(
        std::bit_cast<__m512d>(a), std::bit_cast<__m512d>(b), std::bit_cast<__m512d>(c)));
#elif defined(__AVX__) && defined(__FMA__)
  if constexpr (std::is_same_v<A, float>)
    return std::bit_cast<Vector<A>>(_mm256_fmadd_ps(
        std::bit_cast<__m256>(a), std::bit_cast<__m256>(b), std::bit_cast<__m256>(c)));
  else
    return std::bit_cast<Vector<A>>(_mm256_fmadd_pd(
        std::bit_cast<__m256d>(a), std::bit_cast<__m256d>(b), std::bit_cast<__m256d>(c)));
#else
  return a * b + c;
#endif
}

// Sum over the lanes, in ascending order.
template <class A>
[[gnu::always_inline]] inline A sum_lanes(Vector<A> v) {
  A sum = v[0];
#pragma GCC unroll 16
  for (int i = 1; i < lanes<A>; ++i) sum += v[i];
  return sum;
}

// Minimax polynomials of 2^f on [-1/2, 1/2] with constant term 1 (so that 2^0 is exactly
// 1), from Remez exchange on the relative error: 2.6e-9 and 1.8e-17.
template <class A>
struct PowerOfTwo;
template <>
struct PowerOfTwo<float> {
  static constexpr int mantissa_bits = 23, bias = 127;
  static constexpr float coefficients[] = {
      1.0F,           0.6931472149F,   0.2402265278F,  0.05550310551F,
      0.00961769297F, 0.001340664390F, 0.000155946782F};
};
template <>
struct PowerOfTwo<double> {
  static constexpr int mantissa_bits = 52, bias = 1023;
  static constexpr double coefficients[] = {1.0,
                                            0.69314718055994569675,
                                            0.24022650695910098007,
                                            0.055504108664790394552,
                                            0.0096181291076070023796,
                                            0.0013333558153439964747,
                                            0.0001540353044157213033,
                                            0.000015252727385193868197,
                                            1.3215442675329822143e-6,
                                            1.0180647659234138888e-7,
                                            7.0725704128144235096e-9,
                                            4.078071929588336665e-10};
};

// 2^x for x below the exponents' range, within 1.5 units in the last place (1 with fused
// multiply-add); exactly 0 below -bias (results that would be subnormal are 0); NaN for
// NaN.
// x + magic has round(x) + bias in its low bits: shifted up they are the exponent.
template <class A>
[[gnu::always_inline]] inline Vector<A> exp2(Vector<A> x) {
  using P = PowerOfTwo<A>;
  constexpr int degree = static_cast<int>(std::size(P::coefficients)) - 1;
  constexpr A lowest = -P::bias;
  constexpr A magic =
      static_cast<A>(std::int64_t{3} << (P::mantissa_bits - 1)) + A(P::bias);
  x = x < lowest ? broadcast(lowest) : x;
  const Vector<A> shifted = x + magic;
  const Vector<A> f = x - (shifted - magic);
  Vector<A> power = broadcast(P::coefficients[degree]);
#pragma GCC unroll 16
  for (int i = degree - 1; i >= 0; --i) power = power * f + P::coefficients[i];
  const auto exponent = std::bit_cast<Vector<Bits<A>>>(shifted) << P::mantissa_bits;
  return power * std::bit_cast<Vector<A>>(exponent);
}

// ln x for normal x > 0, within 2 units in the last place; NaN for NaN.
// x = 2^e m, 1/sqrt(2) <= m < sqrt(2); ln m = 2 artanh(s), s = (m - 1) / (m + 1), by its
// series in s^2 <= 0.0295.
template <class A>
[[gnu::always_inline]] inline Vector<A> log(Vector<A> x) {
  using P = PowerOfTwo<A>;
  constexpr int terms = sizeof(A) == 8 ? 11 : 5;
  const auto bits = std::bit_cast<Vector<Bits<A>>>(x);
  const auto e =
      (bits - std::bit_cast<Bits<A>>(std::numbers::sqrt2_v<A> / 2)) >> P::mantissa_bits;
  const Vector<A> m = std::bit_cast<Vector<A>>(bits - (e << P::mantissa_bits));
  const Vector<A> s = (m - A(1)) / (m + A(1)), square = s * s;
  Vector<A> series{};
#pragma GCC unroll 16
  for (int i = terms; i >= 1; --i) series = series * square + A(1) / A(2 * i + 1);
  const Vector<A> log_m = A(2) * s + A(2) * s * square * series;
  // x - x is 0, or NaN where x is.
  return __builtin_convertvector(e, Vector<A>) * std::numbers::ln2_v<A> + log_m + (x - x);
}

// Lanes whose index lacks bit W from a, the others from b moved up by W; and the mirror
// image. Together they exchange bit W of the row index with bit W of the lane index.
template <class A, int W, std::size_t... I>
[[gnu::always_inline]] inline void exchange(Vector<A>& a, Vector<A>& b,
                                            std::index_sequence<I...>) {
  constexpr int n = lanes<A>;
  const Vector<A> low =
      __builtin_shufflevector(a, b, ((I & W) ? int(I) - W + n : int(I))...);
  b = __builtin_shufflevector(a, b, ((I & W) ? int(I) + n : int(I) + W)...);
  a = low;
}

template <class A, int W = 1>
[[gnu::always_inline]] inline void exchange_all(Vector<A>* rows) {
  if constexpr (W < lanes<A>) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes<A>; ++i)
      if ((i & W) == 0)
        exchange<A, W>(rows[i], rows[i | W], std::make_index_sequence<lanes<A>>());
    exchange_all<A, 2 * W>(rows);
  }
}

// to[c][r] = factor * from[r][c]; rows and columns are multiples of the lanes.
template <class A>
void transpose(std::int64_t rows, std::int64_t columns, A factor, const A* from,
               std::int64_t from_stride, A* to, std::int64_t to_stride) {
  constexpr int n = lanes<A>;
  for (std::int64_t r = 0; r < rows; r += n)
    for (std::int64_t c = 0; c < columns; c += n) {
      Vector<A> tile[n];
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i)
        tile[i] = load_vector(from + (r + i) * from_stride + c) * factor;
      exchange_all<A>(tile);
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) store_vector(to + (c + i) * to_stride + r, tile[i]);
    }
}

// One operand of multiply(): a matrix of accumulators with rows `stride` apart.
template <class A>
struct Matrix {
  A* data;
  std::int64_t stride;
};

// What becomes of the old contents of a product's target: overwritten, or kept, after a
// multiplication of each column by its factor if factors are given.
template <class A>
struct Previous {
  bool kept = false;
  const A* factor = nullptr;
};

// M rows of c by N vectors of columns, summed in registers. a(m, r) is a[m][r], or with
// `Transposed` a[r][m].
template <class A, bool Transposed, int M, int N>
[[gnu::noinline]] void multiply_tile(std::int64_t depth, Matrix<const A> a,
                                     Matrix<const A> b, Matrix<A> c,
                                     Previous<A> previous) {
  constexpr int n = lanes<A>;
  Vector<A> sum[M][N];
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) sum[m][v] = Vector<A>{};
  const A* a_r = a.data;
  const A* b_r = b.data;
  for (std::int64_t r = 0; r < depth; ++r) {
    Vector<A> row[N];
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) row[v] = load_vector(b_r + v * n);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      const Vector<A> x = broadcast(Transposed ? a_r[m] : a_r[m * a.stride]);
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) sum[m][v] += x * row[v];
    }
    a_r += Transposed ? a.stride : 1;
    b_r += b.stride;
  }
  // The old contents come last: while the sums are formed they need no registers.
  const auto for_sums = [&](const auto& f) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) f(sum[m][v], c.data + m * c.stride + v * n, v * n);
  };
  if (previous.factor)
    for_sums([&](Vector<A>& x, const A* old, int column) {
      x += load_vector(old) * load_vector(previous.factor + column);
    });
  else if (previous.kept)
    for_sums([](Vector<A>& x, const A* old, int) { x += load_vector(old); });
  for_sums([](const Vector<A>& x, A* to, int) { store_vector(to, x); });
}

// Vectors and rows of the largest tile: sums, one row of b and one broadcast fit in the
// registers, and there are enough sums to hide the latency of an addition.
inline constexpr int tile_vectors = registers == 32 ? 4 : 2;
constexpr int tile_rows(int vectors) {
  return vectors == 1 ? 8 : registers == 16 ? 6 : vectors == 4 ? 6 : 8;
}

template <class A, bool Transposed, int N, int M = tile_rows(N)>
void multiply_rows(std::int64_t rows, std::int64_t depth, Matrix<const A> a,
                   Matrix<const A> b, Matrix<A> c, Previous<A> previous) {
  if constexpr (M > 1)
    if (rows < M)
      return multiply_rows<A, Transposed, N, M - 1>(rows, depth, a, b, c, previous);
  multiply_tile<A, Transposed, M, N>(depth, a, b, c, previous);
}

template <class A, bool Transposed, int N = tile_vectors>
void multiply_columns(int vectors, std::int64_t rows, std::int64_t depth,
                      Matrix<const A> a, Matrix<const A> b, Matrix<A> c,
                      Previous<A> previous) {
  if constexpr (N > 1)
    if (vectors < N)
      return multiply_columns<A, Transposed, N - 1>(vectors, rows, depth, a, b, c,
                                                    previous);
  const std::int64_t tiles = divide_up(rows, tile_rows(N));
  for (std::int64_t i = 0; i < tiles; ++i) {
    const Range part = split_range(rows, tiles, i);
    multiply_rows<A, Transposed, N>(
        part.count(), depth,
        {a.data + part.begin * (Transposed ? 1 : a.stride), a.stride}, b,
        {c.data + part.begin * c.stride, c.stride}, previous);
  }
}

// c[m][n] = (previous.kept ? factor[n] * c[m][n] : 0) + sum over r < depth of a(m, r)
// b[r][n]; a(m, r) is a[m][r], or with `Transposed` a[r][m]. columns is a multiple of the
// lanes. The order of each sum is that of r.
template <class A, bool Transposed>
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth,
              Matrix<const A> a, Matrix<const A> b, Matrix<A> c, Previous<A> previous) {
  const std::int64_t vectors = columns / lanes<A>;
  const std::int64_t groups = divide_up(vectors, tile_vectors);
  for (std::int64_t i = 0; i < groups; ++i) {
    const Range part = split_range(vectors, groups, i);
    const std::int64_t at = part.begin * lanes<A>;
    const Previous<A> here{previous.kept,
                           previous.factor ? previous.factor + at : nullptr};
    multiply_columns<A, Transposed>(static_cast<int>(part.count()), rows, depth, a,
                                    {b.data + at, b.stride}, {c.data + at, c.stride},
                                    here);
  }
}

}  // namespace trireme::kernels::simd
