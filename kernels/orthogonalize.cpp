// The orthogonal factor of a matrix, as products of matrices.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/orthogonalize.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"

namespace trireme::kernels {
namespace {

constexpr double a = 3.4445, b = -4.775, c = 2.0315;
constexpr double least_norm = 1e-7;

TensorView matrix_in(const Buffer& memory, std::int64_t rows, std::int64_t columns) {
  return memory.view().rows(0, rows * columns).reshape({rows, columns});
}

// z = z * factor_z + x * factor_x; `scaled` receives the second term.
void mix(Stream& stream, const TensorView& z, double factor_z, const TensorView& x,
         double factor_x, const TensorView& scaled) {
  scale(stream, z, factor_z);
  copy(stream, x, scaled);
  scale(stream, scaled, factor_x);
  accumulate(stream, scaled, z);
}

}  // namespace

OrthogonalizeMemory::OrthogonalizeMemory(Device device, DType type, std::int64_t elements,
                                         std::int64_t side) {
  const auto make = [&](DType of, std::int64_t n) {
    return Buffer(device, of, {n}, MemoryClass::workspace, "orthogonal factors");
  };
  const DType sums = accumulator_of(type);
  x_ = make(type, elements);
  product_ = make(sums, elements);
  square_ = make(type, side * side);
  polynomial_ = make(type, side * side);
  fourth_ = make(sums, side * side);
  scaled_square_ = make(sums, side * side);
}

std::size_t OrthogonalizeMemory::bytes() const {
  std::size_t sum = 0;
  for (const Buffer* buffer :
       {&x_, &product_, &square_, &polynomial_, &fourth_, &scaled_square_})
    sum += buffer->bytes();
  return sum;
}

void orthogonalize(Stream& stream, const TensorView& x_RC, int steps,
                   const OrthogonalizeMemory& memory) {
  const std::int64_t R = x_RC.dim(0), C = x_RC.dim(1), m = std::min(R, C);
  require(x_RC.dtype() == memory.product_.view().dtype() &&
              R * C <= memory.x_.view().elements() &&
              m * m <= memory.square_.view().elements(),
          "orthogonalize: {} {} in memory for {} elements of {}", name_of(x_RC.dtype()),
          x_RC.shape(), memory.x_.view().elements(),
          name_of(memory.product_.view().dtype()));
  const TensorView x = matrix_in(memory.x_, R, C);
  const TensorView product = matrix_in(memory.product_, R, C);
  const TensorView square = matrix_in(memory.square_, m, m);
  const TensorView polynomial = matrix_in(memory.polynomial_, m, m);
  const TensorView fourth = matrix_in(memory.fourth_, m, m);
  const TensorView scaled = matrix_in(memory.scaled_square_, m, m);
  // 1. x / |x|, rounded to the type of the products before and after
  copy(stream, x_RC, x);
  const double norm = std::sqrt(sum_of_squares(stream, x));
  copy(stream, x, x_RC);
  scale(stream, x_RC, 1 / std::max(norm, least_norm));
  copy(stream, x_RC, x);
  // 2. x = a x + (b A + c A A) x with A = x x^T; from the other side where x is tall
  const bool tall = R > C;
  const Transpose left = tall ? Transpose::yes : Transpose::no;
  const Transpose right = tall ? Transpose::no : Transpose::yes;
  for (int step = 0; step < steps; ++step) {
    gemm(stream, square, x, left, x, right);
    gemm(stream, fourth, square, Transpose::no, square, Transpose::no);
    mix(stream, fourth, c, square, b, scaled);
    copy(stream, fourth, polynomial);
    if (tall) {
      gemm(stream, product, x, Transpose::no, polynomial, Transpose::no);
    } else {
      gemm(stream, product, polynomial, Transpose::no, x, Transpose::no);
    }
    mix(stream, product, 1, x, a, x_RC);
    copy(stream, product, x);
  }
  copy(stream, x, x_RC);
}

}  // namespace trireme::kernels
