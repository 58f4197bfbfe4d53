// Matrices of codes: their numbers, and products of a few rows that read the codes.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>
#include <vector>

#include "base/philox.hpp"
#include "kernels/coded_matrix.hpp"
#include "kernels/gemm_codes.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

// A kind of codes: what lies between its scales, whether it has zero points, and what
// its products are rounded to on their way.
struct Kind {
  CodeType type;
  std::int64_t block_rows, block_columns;
  bool zeros;
  DType rounding;
};
constexpr Kind kinds[] = {{CodeType::four_bits, 1, 64, false, DType::bf16},
                          {CodeType::four_bits, 1, 32, true, DType::f16},
                          {CodeType::int8, 1, 1024, false, DType::f32},
                          {CodeType::e4m3, 128, 128, false, DType::f32}};

// Ragged, which no access of 16 bytes suits, and whole.
constexpr std::int64_t widths[] = {97, 1024};

OwnedCodes drawn(const Kind& kind, std::int64_t N, std::int64_t K) {
  ScaleLayout layout{kind.block_rows, kind.block_columns};
  layout.grid_columns = (K - 1) / kind.block_columns + 1;
  OwnedCodes out(Device::host(), kind.type, {N, K}, layout, kind.zeros);
  out.matrix.book = nf4_book;
  out.matrix.rounding = kind.rounding;
  const Random random(11, static_cast<std::uint64_t>(K));
  std::uint64_t at = 0;
  for (std::uint8_t& code : out.codes.view().span<std::uint8_t>()) {
    code = static_cast<std::uint8_t>(random.below(at++, 256));
    const bool is_nan = kind.type == CodeType::e4m3 && (code & 0x7fu) == 0x7fu;
    if (is_nan) code = 0;
  }
  for (float& scale : out.scales.view().span<float>())
    scale = static_cast<float>(0.01 + random.uniform(at++));
  if (kind.zeros)
    for (float& zero : out.zeros.view().span<float>())
      zero = static_cast<float>(random.below(at++, 16));
  return out;
}

// What the codes stand for, rounded to `type`.
Vector numbers_in(const CodedMatrix& matrix, DType type) {
  Vector all;
  std::vector<float> row(static_cast<std::size_t>(matrix.shape[1]));
  for (std::int64_t i = 0; i < matrix.shape[0]; ++i) {
    decode_row(matrix, i, row.data());
    all.insert(all.end(), row.begin(), row.end());
  }
  return rounded(type, std::move(all));
}

template <class F>
void for_each_matrix(const F& f) {
  for (const Kind& kind : kinds)
    for (const std::int64_t K : widths) f(drawn(kind, 19, K));
}

}  // namespace

void check_code_numbers(Probe& probe, DType dtype) {
  for_each_matrix([&](OwnedCodes codes) {
    const Vector expected = numbers_in(codes.matrix, dtype);
    const OwnedCodes there = moved_to(probe.device(), std::move(codes));
    for (const std::int64_t padding : {3, 8}) {
      const Tensor y = probe.zeros(dtype, there.matrix.shape, padding);
      kernels::decode_matrix(probe.stream(), there.matrix, y);
      probe.equal(y.values(), expected);
    }
  });
}

// A sum of K products in the accumulator's type, in any order: K roundings in a row.
void check_code_products(Probe& probe, DType dtype) {
  for_each_matrix([&](OwnedCodes codes) {
    const std::int64_t N = codes.matrix.shape[0], K = codes.matrix.shape[1];
    const Vector right = numbers_in(codes.matrix, dtype);
    const Tensor numbers = probe.zeros(dtype, {N, K});
    WeightCodes w;
    w.numbers = numbers;
    w.boxes.push_back({{0, 0}, moved_to(probe.device(), std::move(codes))});
    const double unit = roundoff(accumulator_of(dtype)) * static_cast<double>(K + 8);
    for (const std::int64_t M : {1, 3, 4, 6}) {
      const Tensor a = probe.normal(dtype, {M, K}, static_cast<std::uint64_t>(M), 5);
      const Tensor bias = probe.normal(dtype, {N}, 9);
      const Tensor c = probe.zeros(dtype, {M, N}, 3);
      const Vector left = a.values(), added = bias.values();
      Vector expected, bounds;
      for (std::int64_t i = 0; i < M; ++i)
        for (std::int64_t j = 0; j < N; ++j) {
          double sum = added[static_cast<std::size_t>(j)], size = std::abs(sum);
          for (std::int64_t k = 0; k < K; ++k) {
            const double product = left[static_cast<std::size_t>(i * K + k)] *
                                   right[static_cast<std::size_t>(j * K + k)];
            sum += product;
            size += std::abs(product);
          }
          expected.push_back(sum);
          bounds.push_back(unit * size + storing(dtype, sum));
        }
      kernels::gemm_codes(probe.stream(), c, a, w, bias);
      probe.within(c.values(), expected, bounds);
    }
  });
}

}  // namespace trireme::selftest
