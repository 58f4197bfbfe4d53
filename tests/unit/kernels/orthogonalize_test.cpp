// The orthogonal factor of a matrix: against plain loops, and its singular values.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/orthogonalize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::kernels {
namespace {

using test::Tensor;
using test::test_device;
using test::Vector;

Vector draw(std::int64_t n) {
  const Random random(5, 1);
  Vector x;
  for (std::int64_t i = 0; i < n; ++i)
    x.push_back(
        static_cast<float>(2 * random.uniform(static_cast<std::uint64_t>(i)) - 1));
  return x;
}

// C [M, N] = A [M, K] B [K, N]
Vector product(const Vector& a, const Vector& b, std::int64_t M, std::int64_t K,
               std::int64_t N) {
  Vector c(static_cast<std::size_t>(M * N));
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t j = 0; j < N; ++j)
        c[static_cast<std::size_t>(i * N + j)] += a[static_cast<std::size_t>(i * K + k)] *
                                                  b[static_cast<std::size_t>(k * N + j)];
  return c;
}

Vector transpose(const Vector& a, std::int64_t R, std::int64_t C) {
  Vector t(a.size());
  for (std::int64_t i = 0; i < R; ++i)
    for (std::int64_t j = 0; j < C; ++j)
      t[static_cast<std::size_t>(j * R + i)] = a[static_cast<std::size_t>(i * C + j)];
  return t;
}

// The published lines: always from the left, tall matrices too, which is the same.
Vector reference(Vector x, std::int64_t R, std::int64_t C, int steps) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::max(std::sqrt(squares), 1e-7);
  for (int step = 0; step < steps; ++step) {
    const Vector A = product(x, transpose(x, R, C), R, C, R), AA = product(A, A, R, R, R);
    Vector B(A.size());
    for (std::size_t i = 0; i < A.size(); ++i) B[i] = -4.775 * A[i] + 2.0315 * AA[i];
    const Vector Bx = product(B, x, R, R, C);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + Bx[i];
  }
  return x;
}

Vector orthogonal(DType type, const Vector& x, std::int64_t R, std::int64_t C) {
  const Tensor tensor(accumulator_of(type), {R, C}, x);
  Stream stream(test_device());
  const OrthogonalizeMemory memory(test_device(), type, R * C + 3, std::min(R, C) + 1);
  orthogonalize(stream, tensor.view(), 5, memory);
  stream.synchronize();
  return tensor.values();
}

double distance(const Vector& a, const Vector& b) {
  double squares = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(squares / size);
}

// Each of five steps rounds four matrices to half a unit of the type: 20 halves. (a, b
// and c are below 5 and singular values stay below 1.3, so that what a step takes over
// grows by 3.4 at most where values are small, and those are small.)
TEST(Orthogonalize, IsThePublishedIteration) {
  const std::pair<DType, double> types[] = {{DType::f64, 0x1p-52}, {DType::f32, 0x1p-23}};
  for (const auto& [type, unit] : types)
    for (const auto& [R, C] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                               {1, 7},
                               {7, 1},
                               {5, 12},
                               {12, 5},
                               {16, 16},
                               {33, 20}}) {
      const Vector x = draw(R * C);
      EXPECT_LE(distance(orthogonal(type, x, R, C), reference(x, R, C, 5)),
                64 * unit * 20)
          << name_of(type) << " " << R << " x " << C;
    }
}

// The rows of a wide matrix: O O^T has the squares of singular values of 0.68 to 1.21
// (Jordan et al., 2024), so that its trace lies between 0.46 and 1.47 times the rows.
TEST(Orthogonalize, SingularValuesAreNearOne) {
  constexpr std::int64_t R = 8, C = 40;
  for (const DType type : {DType::f64, DType::f32, DType::bf16}) {
    const Vector o = orthogonal(type, draw(R * C), R, C);
    const Vector square = product(o, transpose(o, R, C), R, C, R);
    for (std::int64_t i = 0; i < R; ++i) {
      const double own = square[static_cast<std::size_t>(i * R + i)];
      EXPECT_GT(own, 0.46);
      EXPECT_LT(own, 1.47);
    }
  }
}

TEST(Orthogonalize, ZerosStayZeros) {
  EXPECT_EQ(orthogonal(DType::f32, Vector(24), 4, 6), Vector(24));
}

}  // namespace
}  // namespace trireme::kernels
