// RMSNorm of rows in parts against the norm of whole rows, and its sums.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/split_norm.hpp"

#include <utility>

#include "kernels/elementwise.hpp"
#include "kernels/reference/norm.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

class SplitNorm : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, SplitNorm, every_type, type_name);

// Columns [begin, begin + count) of rows of width D.
Vector columns(const Vector& rows, std::size_t D, std::size_t begin, std::size_t count) {
  Vector part;
  for (std::size_t r = 0; r < rows.size() / D; ++r)
    part.insert(part.end(), rows.begin() + static_cast<std::ptrdiff_t>(r * D + begin),
                rows.begin() + static_cast<std::ptrdiff_t>(r * D + begin + count));
  return part;
}

// Two parts of each row, as two ranks would hold them, sums added between the steps.
// Every element is a product of a few roundings of sums of D terms: k eps sqrt(D), k =
// 16, of numbers that are a few times 1.
TEST_P(SplitNorm, PartsMakeTheNormOfWholeRows) {
  const DType dtype = GetParam(), wide = accumulator_of(dtype);
  constexpr double eps = 1e-5;
  for (const std::int64_t T : {1, 7, 65})
    for (const std::int64_t D : {3, 40, 264})
      for (const std::int64_t padding : {0, 3, 8}) {
        Stream stream(test_device());
        const Tensor x = Tensor::normal(dtype, {T, D}, 1),
                     dy = Tensor::normal(dtype, {T, D}, 2);
        const Tensor gain = Tensor::normal(dtype, {D}, 3);
        const auto expected =
            kernels::reference::norm(x.values(), gain.values(), {}, eps);
        const auto back = kernels::reference::norm_backward(dy.values(), x.values(),
                                                            gain.values(), eps, false);
        const auto width = static_cast<std::size_t>(D);
        const std::int64_t cut = D / 3;
        const double size = largest(x.values()) * largest(gain.values()) * 4;
        const double absolute = 16 * roundoff(wide) * std::sqrt(static_cast<double>(D)) *
                                size *
                                (1 + largest(dy.values()) * largest(gain.values()));
        struct Part {
          std::int64_t begin, count;
          Tensor x, dy, gain, squares, products, rstd, y, dx, terms, dgain;
        };
        std::vector<Part> parts;
        for (const auto& [begin, count] :
             {std::pair<std::int64_t, std::int64_t>{0, cut}, {cut, D - cut}}) {
          const auto from = static_cast<std::size_t>(begin),
                     n = static_cast<std::size_t>(count);
          const Vector all = gain.values();
          parts.push_back(
              {begin, count,
               Tensor(dtype, {T, count}, columns(x.values(), width, from, n), padding),
               Tensor(dtype, {T, count}, columns(dy.values(), width, from, n), padding),
               Tensor(dtype, {count},
                      Vector(all.begin() + begin, all.begin() + begin + count)),
               Tensor(wide, {T}), Tensor(wide, {T}), Tensor(wide, {T}),
               Tensor(dtype, {T, count}, padding), Tensor(dtype, {T, count}, padding),
               Tensor(wide, {T, count}), Tensor(wide, {count}, Vector(n, 0.0))});
        }
        const auto sum_over = [&](Tensor Part::*member) {
          Vector sum(static_cast<std::size_t>(T), 0.0);
          for (Part& part : parts) {
            const Vector mine = (part.*member).values();
            for (std::size_t t = 0; t < sum.size(); ++t) sum[t] += mine[t];
          }
          for (Part& part : parts) (part.*member).set(sum);
        };
        for (Part& p : parts) kernels::row_products(stream, p.x, p.x, {}, p.squares);
        sum_over(&Part::squares);
        for (Part& p : parts) {
          kernels::split_rms_norm(stream, p.x, p.gain, p.squares, D, eps, p.y, p.rstd);
          kernels::row_products(stream, p.dy, p.x, p.gain, p.products);
        }
        sum_over(&Part::products);
        for (Part& p : parts) {
          const auto from = static_cast<std::size_t>(p.begin),
                     n = static_cast<std::size_t>(p.count);
          kernels::split_rms_norm_backward(stream, p.dy, p.x, p.gain, p.rstd, p.products,
                                           D, p.dx, p.terms);
          kernels::add_column_sums(stream, p.terms, p.dgain);
          const std::string what = format("T = {}, D = {}, part at {}", T, D, p.begin);
          expect_close(dtype, p.y.values(), columns(expected.y_TD, width, from, n),
                       absolute, what);
          expect_close(dtype, p.dx.values(), columns(back.dx_TD, width, from, n),
                       absolute, what);
          const Vector dgain(back.dgain_D.begin() + p.begin,
                             back.dgain_D.begin() + p.begin + p.count);
          expect_close(wide, p.dgain.values(), dgain, absolute * static_cast<double>(T),
                       what);
          EXPECT_TRUE(p.y.padding_is_intact() && p.dx.padding_is_intact());
          // Without the products only the gradient of the gain's product is left.
          kernels::split_rms_norm_backward(stream, p.dy, p.x, p.gain, p.rstd, {}, D, p.dx,
                                           p.terms);
          const Vector dx = p.dx.values(), rstd = p.rstd.values(), d = p.dy.values(),
                       g = p.gain.values();
          for (std::size_t i = 0; i < dx.size(); ++i) {
            const double exact = d[i] * g[i % n] * rstd[i / n];
            EXPECT_NEAR(dx[i], exact, absolute + 2 * roundoff(dtype) * std::abs(exact));
          }
        }
      }
}

}  // namespace
}  // namespace trireme::test
