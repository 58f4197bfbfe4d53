// The head's products with odd and even vocabularies, against sums in double.
// SPDX-License-Identifier: Apache-2.0
#include "nn/vocabulary_products.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::nn {
namespace {

using test::Tensor;
using test::Vector;

constexpr std::int64_t C = 70, D = 24;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// What a product of `terms` sums to, and how far f32 sums of them may be off.
struct Exact {
  double sum = 0, size = 0;
  void add(double x) {
    sum += x;
    size += std::abs(x);
  }
  double error(std::int64_t terms) const {
    return 4 * std::sqrt(static_cast<double>(terms)) * 0x1p-24 * size;
  }
};

struct Case {
  explicit Case(std::int64_t entries, DType type)
      : V(entries),
        u(type == DType::bf16 ? 0x1p-8 : 0x1p-24),
        h(Tensor::normal(type, {C, D}, 1)),
        w(Tensor::normal(type, {V, D}, 2)),
        logits(Tensor::normal(type, {C, (V + 63) / 64 * 64}, 3)),
        dh(type, {C, D}),
        dw(Tensor::normal(DType::f32, {V, D}, 4)) {}
  TensorView x() const { return logits.view().columns(0, V); }
  // Of the logits, without the columns that pad them.
  Vector values() const {
    const Vector all = logits.values();
    const std::int64_t padded = logits.view().dim(1);
    Vector some;
    for (std::int64_t i = 0; i < C; ++i)
      some.insert(some.end(), all.begin() + i * padded, all.begin() + i * padded + V);
    return some;
  }

  std::int64_t V;
  double u;  // of rounding to the type
  Tensor h, w, logits, dh, dw;
  Stream stream{test::test_device()};
};

void expect_logits(Case& c) {
  vocabulary_logits(c.stream, c.h, c.w, c.x());
  const Vector h = c.h.values(), w = c.w.values(), got = c.values();
  for (std::int64_t i = 0; i < C; ++i)
    for (std::int64_t v = 0; v < c.V; ++v) {
      Exact exact;
      for (std::int64_t d = 0; d < D; ++d) exact.add(h[at(i * D + d)] * w[at(v * D + d)]);
      ASSERT_NEAR(got[at(i * c.V + v)], exact.sum,
                  c.u * std::abs(exact.sum) + exact.error(D))
          << i << ", " << v;
    }
}

// Rounded once, and what is behind the cut twice.
void expect_input_gradient(Case& c) {
  const Vector x = c.values(), w = c.w.values();
  vocabulary_input_gradient(c.stream, c.x(), c.w, c.dh);
  const Vector got = c.dh.values();
  const std::int64_t cut = vocabulary_cut(test::test_device(), C, c.V);
  for (std::int64_t i = 0; i < C; ++i)
    for (std::int64_t d = 0; d < D; ++d) {
      Exact exact, behind;
      for (std::int64_t v = 0; v < c.V; ++v) {
        const double term = x[at(i * c.V + v)] * w[at(v * D + d)];
        exact.add(term);
        if (v >= cut) behind.add(term);
      }
      ASSERT_NEAR(
          got[at(i * D + d)], exact.sum,
          1.01 * c.u * (std::abs(exact.sum) + std::abs(behind.sum)) + exact.error(c.V))
          << i << ", " << d;
    }
}

void expect_weight_gradient(Case& c, kernels::Accumulate accumulate) {
  const Vector x = c.values(), h = c.h.values(), before = c.dw.values();
  vocabulary_weight_gradient(c.stream, c.x(), c.h, c.dw, accumulate);
  const Vector got = c.dw.values();
  for (std::int64_t v = 0; v < c.V; ++v)
    for (std::int64_t d = 0; d < D; ++d) {
      Exact exact;
      if (accumulate == kernels::Accumulate::yes) exact.add(before[at(v * D + d)]);
      for (std::int64_t i = 0; i < C; ++i)
        exact.add(x[at(i * c.V + v)] * h[at(i * D + d)]);
      ASSERT_NEAR(got[at(v * D + d)], exact.sum, exact.error(C + 1)) << v << ", " << d;
    }
}

TEST(VocabularyProducts, AreThoseOfTheWholeVocabulary) {
  for (const DType type : {DType::bf16, DType::f32})
    for (const std::int64_t V : {1087, 1088, 1041, 63}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << ", " << V << " entries");
      Case c(V, type);
      expect_input_gradient(c);
      expect_weight_gradient(c, kernels::Accumulate::yes);
      expect_weight_gradient(c, kernels::Accumulate::no);
      expect_logits(c);
    }
}

TEST(VocabularyProducts, AreCutOnAGpuWhereRowsAreOdd) {
  const Device gpu = Device::cuda(0);
  EXPECT_EQ(vocabulary_cut(gpu, 4096, 50257), 50240);
  EXPECT_EQ(vocabulary_cut(gpu, 4096, 50304), 50304);
  EXPECT_EQ(vocabulary_cut(gpu, 4096, 50264), 50264);  // rows of 16 bytes
  EXPECT_EQ(vocabulary_cut(gpu, 4096, 1023), 1023);
  EXPECT_EQ(vocabulary_cut(gpu, 1, 50257), 50257);
  EXPECT_EQ(vocabulary_cut(Device::host(), 4096, 50257), 50257);
}

}  // namespace
}  // namespace trireme::nn
